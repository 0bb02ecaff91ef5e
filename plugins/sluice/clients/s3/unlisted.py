"""Objects of a bucket that cannot be listed: who may not list it is denied what is missing, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sluice.clients.s3.errors import NO_RIGHT, asking, error_code
from sluice.clients.s3.objects import Bucket, Entry
from sluice.core.errors import Missing, Refused

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class Unlisted:
    """S3's client for such a bucket, with any login, also with the keys that a catalog gives for a table."""

    def __init__(self, client: S3Client) -> None:
        self._client = client

    def get_object(self, **given: Any) -> Any:
        """Raises FileNotFoundError for an object that is missing or denied, which are answered alike."""
        with _denied_or_missing(given):
            return self._client.get_object(**given)

    def head_object(self, **given: Any) -> Any:
        """As :meth:`get_object`."""
        with _denied_or_missing(given):
            return self._client.head_object(**given)


@contextmanager
def _denied_or_missing(given: Mapping[str, Any]) -> Iterator[None]:
    try:
        yield
    except (ClientError, Refused) as error:
        # A client with the keys of tables has made a Refused of it.
        s3 = error.__cause__ if isinstance(error, Refused) else error
        if not isinstance(s3, ClientError) or error_code(s3) not in NO_RIGHT:
            raise
        raise FileNotFoundError(
            f"s3://{given['Bucket']}/{given['Key']}: no such object, or no right to read it: S3 answers both "
            "alike where a bucket cannot be listed"
        ) from error


def entries_by_head(bucket: Bucket, key: str) -> list[Entry]:
    """The object as it is now; none if it is missing, or must not be read. A HEAD."""
    try:
        with asking(f"s3://{bucket.name}/{key}"):
            found = Unlisted(bucket.client).head_object(Bucket=bucket.name, Key=key)
    except (Missing, FileNotFoundError):
        return []
    etag, at = found["ETag"].strip('"'), found["LastModified"]
    return [Entry(key, True, False, etag, found["ContentLength"], at)]
