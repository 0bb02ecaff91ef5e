"""What lies in the lake's bucket, and what it cost: of any demo."""

from __future__ import annotations

from urllib.parse import urlsplit

from local.stack import Stack


def bucket_counts(stack: Stack, warehouse: str) -> tuple[int, int, int]:
    """Objects, versions and delete markers under the warehouse's prefix (`s3://bucket/prefix`)."""
    where = urlsplit(warehouse)
    pages = stack.s3("airflow").get_paginator("list_object_versions")
    objects = versions = markers = 0
    for page in pages.paginate(Bucket=where.netloc, Prefix=where.path.strip("/") + "/"):
        listed = page.get("Versions", [])
        versions += len(listed)
        objects += sum(1 for version in listed if version.get("IsLatest"))
        markers += len(page.get("DeleteMarkers", []))
    return objects, versions, markers


def s3_calls(stack: Stack) -> int | None:
    """All S3 calls since MinIO's start; None with an S3 that is not ours."""
    return None if stack.context.external is not None else sum(stack.minio_requests().values())
