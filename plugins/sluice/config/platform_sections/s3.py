"""``[s3]`` and ``[source]`` of a platform file: the endpoint, and the bucket of the objects to load."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated


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


@dataclass(frozen=True)
class Source:
    """Where the objects to load lie."""

    bucket: Annotated[str, "the bucket of the objects to load"]
