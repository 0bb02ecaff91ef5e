"""PyIceberg's reads of S3 by boto3: a request per file, where Arrow sends four for a metadata file."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import Properties

from sluice.clients.s3 import split
from sluice.io.object_file import ObjectFile, get_object

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Objects in memory, a manifest of up to 1 MB each.
KEPT = 16


class BotoFileIO(FileIO):
    """Reads ``s3://`` by ``client``; writes, deletes and reads everything else as Arrow does."""

    def __init__(self, properties: Properties, client: S3Client) -> None:
        super().__init__(properties)
        self._client, self._arrow = client, PyArrowFileIO(properties)
        # A file of metadata never changes, and a check or two after each other need the same.
        self._whole = lru_cache(KEPT)(lambda bucket, key: get_object(client, bucket, key)["Body"].read())

    def new_input(self, location: str) -> InputFile:
        if location.startswith("s3://"):
            return ObjectInput(location, self._client, self._whole)
        return self._arrow.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        return self._arrow.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._arrow.delete(location)


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
