"""A MinIO with a certificate of an authority of a test's own, STS, web identities, and keys that encrypt."""

from __future__ import annotations

import base64
import os
import re
import ssl
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import urllib3
from minio.credentials import StaticProvider
from minio.minioadmin import MinioAdmin

from local.runtime.ports import HOST, free_ports, free_range
from local.runtime.roles import SOURCE, WAREHOUSE
from local.setup import cache
from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.s3 import S3
from tests.support.certificates import Authority
from tests.support.token_server import AUDIENCE, TokenServer

ROOT, SECRET = "root-of-tests", "secret-of-root"
USER, USER_SECRET = "lake-user", "secret-of-user"
KEY = "key-of-tests"
START_SECONDS = 60
_ARN = re.compile(r"arn:minio:iam:::role/[\w-]+", re.ASCII)


class LoginMinio:
    """Its buckets are the stack's. ``tokens``: gives web identities; what they may do is what the user
    may."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tokens = folder, TokenServer({})
        self.authority = Authority(folder / "authority")
        (self._port,) = free_ports(1, set(), free_range({}))
        self.url = f"https://{HOST}:{self._port}"
        certificate, key = self.authority.issue("minio")
        certificates = folder / "certs"
        certificates.mkdir()
        (certificates / "public.crt").write_bytes(certificate.read_bytes())
        (certificates / "private.key").write_bytes(key.read_bytes())
        self._log = folder / "minio.log"
        self._process = self._start(certificates)
        self.root: Any = connect(self.s3(ROOT, SECRET))
        for bucket in (WAREHOUSE, SOURCE):
            self.root.create_bucket(Bucket=bucket)
        self._admin.user_add(USER, USER_SECRET)
        self._admin.policy_set("readwrite", user=USER)

    def s3(self, access_key: str = "", secret_key: str = "", **declared: Any) -> S3:
        """Its ``[s3]``, with these keys or this login."""
        ca = str(self.authority.ca)
        place = S3(access_key, secret_key, endpoint=self.url, path_style=True, ca_location=ca)
        return replace(place, **declared)

    def of_role(self, **declared: Any) -> S3:
        """A role that the user's keys assume: each one that may ask, with its own rights."""
        login = {"role_arn": "arn:aws:iam::123456789012:role/lake", "sts_endpoint": self.url}
        return self.s3(USER, USER_SECRET, **login, **declared)

    def of_token(self, path: Path, **declared: Any) -> S3:
        """A web identity whose token is in this file."""
        return self.s3(
            role_arn=self.role_arn, web_identity_token_file=str(path), sts_endpoint=self.url, **declared
        )

    def renew(self, path: Path, lifetime: float) -> None:
        """Another token in this file, for so many seconds."""
        part = path.with_suffix(".part")
        part.write_text(self.tokens.token("lake-of-tokens", lifetime))
        part.rename(path)

    @cached_property
    def role_arn(self) -> str:
        found = _ARN.search(self._log.read_text())
        assert found, self._log.read_text()
        return found[0]

    @property
    def _admin(self) -> MinioAdmin:
        return MinioAdmin(
            endpoint=f"{HOST}:{self._port}",
            credentials=StaticProvider(ROOT, SECRET),
            http_client=urllib3.PoolManager(ca_certs=str(self.authority.ca)),
        )

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self.tokens.stop()

    def _start(self, certificates: Path) -> subprocess.Popen[bytes]:
        settings: Mapping[str, str] = {
            "MINIO_ROOT_USER": ROOT,
            "MINIO_ROOT_PASSWORD": SECRET,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            "MINIO_CALLHOME_ENABLE": "off",
            "MINIO_KMS_SECRET_KEY": f"{KEY}:{base64.b64encode(b'k' * 32).decode()}",
            "MINIO_IDENTITY_OPENID_CONFIG_URL": self.tokens.discovery_url,
            "MINIO_IDENTITY_OPENID_CLIENT_ID": AUDIENCE,
            "MINIO_IDENTITY_OPENID_ROLE_POLICY": "readwrite",
        }
        command = [str(cache.minio().path / "minio"), "server", "--certs-dir", str(certificates)]
        command += ["--address", f"{HOST}:{self._port}", str(self.folder / "data")]
        with self._log.open("ab") as out:
            process = subprocess.Popen(
                command, env={**os.environ, **settings}, cwd=self.folder, stdout=out, stderr=out
            )
        deadline, trusted = (
            time.monotonic() + START_SECONDS,
            ssl.create_default_context(cafile=self.authority.ca),
        )
        live = f"{self.url}/minio/health/ready"
        while True:
            try:
                httpx.get(live, timeout=3, trust_env=False, verify=trusted).raise_for_status()
            except httpx.HTTPError as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"MinIO did not start: {self._log.read_text()}") from error
                time.sleep(0.2)
            else:
                return process
