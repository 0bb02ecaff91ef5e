"""MinIO: the bucket store, with one user per role."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import jwt
from botocore.exceptions import ClientError
from minio.credentials import StaticProvider
from minio.minioadmin import MinioAdmin

from local.runtime.context import Context, with_parent
from local.runtime.home import write_files
from local.runtime.roles import CATALOG_USER, CHECKPOINTS, SOURCE, WAREHOUSE, s3_policies
from local.runtime.supervisord import Program
from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.s3 import S3

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import LifecycleRuleTypeDef

ROOT_USER = "sluice-root"
# What maintenance deleted can be restored for a week; then its versions go, and the delete markers.
_REMOVED: list[LifecycleRuleTypeDef] = [
    {
        "ID": f"removed-{prefix}",
        "Status": "Enabled",
        "Filter": {"Prefix": f"{prefix}/"},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 7},
        "Expiration": {"ExpiredObjectDeleteMarker": True},
    }
    for prefix in ("lake", "ledger")
]


def program(context: Context, drives: Sequence[Path] = ()) -> Program:
    """On one folder, or erasure coded on several `drives`."""
    environment = {
        **context.environment(),
        "MINIO_ROOT_USER": ROOT_USER,
        # Not in its environment, which many a tool shows.
        "MINIO_ROOT_PASSWORD_FILE": str(_password(context)),
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
        "MINIO_CALLHOME_ENABLE": "off",
        # The scanner removes versions by _REMOVED: within a day is soon enough.
        "MINIO_SCANNER_SPEED": "slowest",
    }
    folders = drives or (data(context),)
    certs = context.home.conf / "minio-certs"  # empty; otherwise MinIO would create ~/.minio
    options = ("--quiet", "--certs-dir", certs, "--address", context.network.listener("minio"))
    command = with_parent(context.minio / "minio", "server", *options, *folders)
    return Program("minio", command, environment, priority=20, directory=context.home.root)


def data(context: Context) -> Path:
    return context.home.data / "minio"


def _password(context: Context) -> Path:
    return context.home.conf / "minio-root.password"


def files(context: Context) -> dict[Path, str]:
    """The root user's password."""
    return {_password(context): context.secrets["minio_root"]}


def prepare(context: Context) -> None:
    data(context).mkdir(mode=0o700, exist_ok=True)
    write_files(files(context))


def url(context: Context) -> str:
    return f"http://{context.network.address('minio')}"


def probe(context: Context) -> str:
    """Raises httpx.HTTPError if it does not answer or is not ready."""
    httpx.get(f"{url(context)}/minio/health/ready", timeout=3, trust_env=False).raise_for_status()
    return "ready"


def admin_s3(context: Context) -> S3Client:
    """boto3's client as the root user; for set-up, uploads to the source bucket and tests only."""
    return connect(S3(ROOT_USER, context.secrets["minio_root"], url(context), path_style=True))


def provision(context: Context, users: dict[str, tuple[str, str]], checkpoints: bool = False) -> None:
    """Create versioned buckets, and each role's user with its policy, and the REST catalog's; idempotent.

    `users`: role → (access key, secret key). `checkpoints`: with a bucket for them, not versioned. Raises
    MinioAdminException or ClientError on refusal.
    """
    client = admin_s3(context)
    for bucket in (WAREHOUSE, SOURCE, *([CHECKPOINTS] if checkpoints else [])):
        try:
            client.create_bucket(Bucket=bucket)
        except ClientError as error:
            if error.response["Error"]["Code"] != "BucketAlreadyOwnedByYou":
                raise
        if bucket != CHECKPOINTS:
            client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    client.put_bucket_lifecycle_configuration(Bucket=WAREHOUSE, LifecycleConfiguration={"Rules": _REMOVED})
    admin = MinioAdmin(
        endpoint=context.network.address("minio"),
        credentials=StaticProvider(ROOT_USER, context.secrets["minio_root"]),
        secure=False,
    )
    has_catalog = context.rest_catalog is not None
    logins = users | {"catalog": (CATALOG_USER, context.secrets["minio_catalog"])}
    for role, policy in s3_policies(checkpoints, has_catalog).items():
        access_key, secret_key = logins[role]
        admin.policy_add(f"sluice-{role}", policy=policy)
        admin.user_add(access_key, secret_key)
        admin.policy_set(f"sluice-{role}", user=access_key)


def requests(context: Context) -> dict[str, int]:
    """Requests since its start by S3 API (`PutObject` → 12). Raises httpx.HTTPError if it refuses."""
    return parse_requests(metrics(context))


def metrics(context: Context) -> str:
    """Its API metrics as Prometheus' text. Raises httpx.HTTPError if it refuses.

    Version 3 of the endpoint: version 2 lags by about 10 s.
    """
    claims: dict[str, Any] = {"sub": ROOT_USER, "iss": "prometheus", "exp": int(time.time()) + 60}
    token = jwt.encode(claims, context.secrets["minio_root"], algorithm="HS256")
    response = httpx.get(
        f"{url(context)}/minio/metrics/v3/api/requests",
        headers={"Authorization": f"Bearer {token}"},
        timeout=10,
        trust_env=False,
    )
    response.raise_for_status()
    return response.text


def parse_requests(text: str) -> dict[str, int]:
    """`minio_api_requests_total` of type s3 by API, summed over servers, from Prometheus' text."""
    requests: Counter[str] = Counter()
    for labels, value in s3_samples("minio_api_requests_total", text):
        requests[labels["name"]] += int(value)
    return dict(requests)


def s3_samples(name: str, text: str) -> Iterator[tuple[dict[str, str], float]]:
    """Labels and value of each sample of a metric that is of type s3, from Prometheus' text."""
    for found, value in re.findall(rf"^{name}\{{([^}}]*)\}} (\S+)$", text, re.M):
        labels = dict(re.findall(r'(\w+)="([^"]*)"', found))
        if labels.get("type") == "s3":
            yield labels, float(value)
