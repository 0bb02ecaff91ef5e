"""``[s3]`` and ``[source]`` of a platform file: the endpoint, and the bucket of the objects to load."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

# To S3 at once, of one client.
S3_REQUESTS = 16


@dataclass(frozen=True)
class S3:
    """An S3 endpoint and one user's keys. Without ``endpoint``: AWS itself, in ``region``."""

    access_key: Annotated[str, "of the role's user"]
    secret_key: Annotated[str, "of the role's user"] = field(repr=False)
    endpoint: Annotated[str, "address; empty: AWS itself, in `region`"] = ""
    region: Annotated[str, "of the buckets"] = "us-east-1"
    path_style: Annotated[
        bool,
        "true: `https://host/bucket`, as for MinIO; false: `https://bucket.host`",
    ] = False

    def boto3(
        self, connect_seconds: float = 5, read_seconds: float = 60, attempts: int = 5
    ) -> dict[str, object]:
        """Keyword arguments for ``boto3.client("s3", …)``; ``attempts``: of each request, at most."""
        from botocore.config import Config

        return {
            "endpoint_url": self.endpoint or None,
            "region_name": self.region,
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "config": Config(
                s3={"addressing_style": "path" if self.path_style else "auto"},
                retries={"mode": "standard", "total_max_attempts": attempts},
                connect_timeout=connect_seconds,
                read_timeout=read_seconds,
                max_pool_connections=S3_REQUESTS,
            ),
        }


@dataclass(frozen=True)
class Source:
    """Where the objects to load lie."""

    bucket: Annotated[str, "the bucket of the objects to load"]
