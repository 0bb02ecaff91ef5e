"""Small objects that count: of each kind the newest is found by one request, however many there are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

# Names are what is missing to this, so that the newest comes first: S3 lists in the order of names.
_MOST = 10**15 - 1
# What S3 answers where the object is there already.
THERE = frozenset({"PreconditionFailed", "412"})
_GONE = frozenset({"NoSuchKey", "404"})


class Places:
    """Numbered objects below ``<prefix><kind>/`` of a bucket. They are made once and never changed.

    Raises botocore's errors where S3 does not answer or refuses.
    """

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client, self._bucket, self._prefix = client, bucket, prefix

    def newest(self, kind: str) -> int | None:
        """The highest number of a kind; None where there is none. One request."""
        folder = self._folder(kind)
        found = self._client.list_objects_v2(Bucket=self._bucket, Prefix=folder, MaxKeys=1)
        for entry in found.get("Contents", []):
            return _MOST - int(entry["Key"].removeprefix(folder).removesuffix(".json"))
        return None

    def put(self, kind: str, number: int, said: Mapping[str, Any]) -> bool:
        """Make one; False where it is there already."""
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=self._key(kind, number),
                Body=json.dumps(said).encode(),
                ContentType="application/json",
                IfNoneMatch="*",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] in THERE:
                return False
            raise
        return True

    def get(self, kind: str, number: int) -> dict[str, Any] | None:
        """What one says; None where it is not there."""
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._key(kind, number))
        except ClientError as error:
            if error.response["Error"]["Code"] in _GONE:
                return None
            raise
        with answer["Body"] as body:
            found: dict[str, Any] = json.load(body)
        return found

    def _folder(self, kind: str) -> str:
        return f"{self._prefix}{kind}/"

    def _key(self, kind: str, number: int) -> str:
        return f"{self._folder(kind)}{_MOST - number:015d}.json"
