"""MinIO: the bucket store, with one user per role."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import boto3
import httpx
import jwt
from botocore.config import Config
from botocore.exceptions import ClientError
from minio.credentials import StaticProvider
from minio.minioadmin import MinioAdmin

from local.runtime.context import Context, with_parent
from local.runtime.ports import HOST
from local.runtime.roles import SOURCE, WAREHOUSE, s3_policies
from local.runtime.supervisord import SERVICE_OPTIONS, Program

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ROOT_USER = "sluice-root"


def program(context: Context) -> Program:
    environment = {
        **context.environment(),
        "MINIO_ROOT_USER": ROOT_USER,
        "MINIO_ROOT_PASSWORD": context.secrets["minio_root"],
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
        "MINIO_CALLHOME_ENABLE": "off",
        # The scanner looks for things to restore and to expire, of which there is nothing here.
        "MINIO_SCANNER_SPEED": "slowest",
    }
    address = f"{HOST}:{context.ports['minio']}"
    folder = context.home.data / "minio"
    certs = context.home.conf / "minio-certs"  # empty; else it would make ~/.minio
    return Program(
        "minio",
        with_parent(
            context.minio / "minio", "server", "--quiet", "--certs-dir", certs, "--address", address, folder
        ),
        environment,
        priority=20,
        directory=context.home.root,
        options=SERVICE_OPTIONS,
    )


def prepare(context: Context) -> None:
    """Makes its data folder."""
    (context.home.data / "minio").mkdir(mode=0o700, exist_ok=True)


def url(context: Context) -> str:
    return f"http://{HOST}:{context.ports['minio']}"


def probe(context: Context) -> str:
    """Raises httpx.HTTPError when it does not answer or is not fit to serve."""
    httpx.get(f"{url(context)}/minio/health/ready", timeout=3, trust_env=False).raise_for_status()
    return "ready"


def admin_s3(context: Context) -> S3Client:
    """boto3's client as the root user; for set-up, the demo's own object and tests only."""
    return boto3.client(
        "s3",
        endpoint_url=url(context),
        region_name="us-east-1",
        aws_access_key_id=ROOT_USER,
        aws_secret_access_key=context.secrets["minio_root"],
        config=Config(s3={"addressing_style": "path"}, connect_timeout=5),
    )


def provision(context: Context, secrets_of: dict[str, tuple[str, str]]) -> None:
    """Versioned buckets, and each role's user with its policy; repeatable.

    `secrets_of`: role → (access key, secret key). Raises MinioAdminException or ClientError on refusal.
    """
    client = admin_s3(context)
    for bucket in (WAREHOUSE, SOURCE):
        try:
            client.create_bucket(Bucket=bucket)
        except ClientError as error:
            if error.response["Error"]["Code"] != "BucketAlreadyOwnedByYou":
                raise
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    admin = MinioAdmin(
        endpoint=f"{HOST}:{context.ports['minio']}",
        credentials=StaticProvider(ROOT_USER, context.secrets["minio_root"]),
        secure=False,
    )
    for role, policy in s3_policies().items():
        access_key, secret_key = secrets_of[role]
        admin.policy_add(f"sluice-{role}", policy=policy)
        admin.user_add(access_key, secret_key)
        admin.policy_set(f"sluice-{role}", user=access_key)


def requests(context: Context) -> dict[str, int]:
    """Calls since its start, by S3 API (`PutObject` → 12), of its Prometheus endpoint.

    Version 3 of the endpoint, since it counts at once: version 2 lags by about 10 s.
    Raises httpx.HTTPError when the endpoint refuses.
    """
    claims: dict[str, Any] = {"sub": ROOT_USER, "iss": "prometheus", "exp": int(time.time()) + 60}
    token = jwt.encode(claims, context.secrets["minio_root"], algorithm="HS256")
    answer = httpx.get(
        f"{url(context)}/minio/metrics/v3/api/requests",
        headers={"Authorization": f"Bearer {token}"},
        timeout=10,
        trust_env=False,
    )
    answer.raise_for_status()
    return parse_requests(answer.text)


def parse_requests(text: str) -> dict[str, int]:
    """`minio_api_requests_total` of type s3 by API out of Prometheus' text; servers are added up."""
    found: dict[str, int] = {}
    for labels, value in re.findall(r"^minio_api_requests_total\{([^}]*)\} (\S+)$", text, re.M):
        given = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if given.get("type") == "s3":
            found[given["name"]] = found.get(given["name"], 0) + int(float(value))
    return found
