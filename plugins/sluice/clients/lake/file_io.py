"""PyIceberg's reads of S3 by boto3: a request per file of metadata, where Arrow sends up to four."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import Properties

from sluice.clients.s3.object_file import ObjectFile, get_object
from sluice.clients.s3.requests import split
from sluice.clients.s3.unlisted import Unlisted
from sluice.config.platform_sections.lake import BUCKET_LISTS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Bytes of manifest lists and manifests that are kept in memory.
KEPT_BYTES = 16 * 1024 * 1024


class BotoFileIO(FileIO):
    """Reads ``s3://`` by ``client``; writes, deletes and reads everything else as Arrow does."""

    def __init__(self, properties: Properties, client: S3Client) -> None:
        super().__init__(properties)
        is_unlisted = properties.get(BUCKET_LISTS) == "false"
        self._client = cast("S3Client", Unlisted(client)) if is_unlisted else client
        self._arrow = PyArrowFileIO(properties)
        self._kept: dict[tuple[str, str], bytes] = {}
        self._lock = threading.Lock()

    def new_input(self, location: str) -> InputFile:
        if location.startswith(("s3://", "s3a://")):
            return ObjectInput(location, self._client, self._whole)
        return self._arrow.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        return self._arrow.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._arrow.delete(location)

    def _whole(self, bucket: str, key: str) -> bytes:
        """An object, kept if it is a manifest or a list of them: these never change, and the steps of a check
        need the same ones."""
        found = self._kept.get((bucket, key))
        if found is not None:
            return found
        body, _ = get_object(self._client, bucket, key)
        if key.endswith(".avro") and len(body) <= KEPT_BYTES:
            with self._lock:
                self._kept[bucket, key] = body
                while sum(map(len, self._kept.values())) > KEPT_BYTES:
                    del self._kept[next(iter(self._kept))]
        return body


class ObjectInput(InputFile):
    """An object. Opening and reading it raise FileNotFoundError if it is gone, or botocore's errors."""

    def __init__(self, location: str, client: S3Client, whole: Callable[[str, str], bytes]) -> None:
        super().__init__(location)
        self._client, self._whole = client, whole
        self._bucket, self._key = split(location)

    def __len__(self) -> int:
        return self._client.head_object(Bucket=self._bucket, Key=self._key)["ContentLength"]

    def exists(self) -> bool:
        try:
            self.open(seekable=False).close()
        except FileNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:
        """A data file is read from its end as needed, any other at once."""
        if self.location.endswith(".parquet"):
            file: InputStream = pa.PythonFile(ObjectFile(self._client, self._bucket, self._key), mode="r")
            return file
        return io.BytesIO(self._whole(self._bucket, self._key))
