"""Delete objects, as role ``maintenance``: no other may, and it may write but what stays known of these."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from sluice.clients.s3.errors import DENIED, asking
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ROLE = "maintenance"
# S3's limit per request.
BATCH = 1000


def remove(client: S3Client, bucket: str, keys: Iterable[str]) -> None:
    """Delete the current version of each object; one that does not exist is no error.

    Raises Refused or Unreachable with the first key that S3 did not delete; others may be deleted.
    """
    left = iter(keys)
    while batch := list(islice(left, BATCH)):
        with asking(f"deleting from s3://{bucket}"):
            answer = client.delete_objects(
                Bucket=bucket, Delete={"Objects": [{"Key": key} for key in batch], "Quiet": True}
            )
        for error in answer.get("Errors", []):
            code = str(error.get("Code"))
            message = f"s3://{bucket}/{error.get('Key')} was not deleted: {code}: {error.get('Message')}"
            if code in DENIED:
                raise Refused(
                    f"{message}. Fix: grant role {ROLE} s3:DeleteObject there", ErrorCode.S3_PERMISSION
                )
            raise Unreachable(message, ErrorCode.S3_UNREACHABLE)
