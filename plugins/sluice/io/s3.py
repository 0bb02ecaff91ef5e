"""The S3 client of a role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import boto3

from sluice.model.spec.platform import S3

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def connect(s3: S3) -> S3Client:
    """A client with the role's keys; nothing is sent yet."""
    return boto3.client("s3", **cast("dict[str, Any]", s3.boto3()))
