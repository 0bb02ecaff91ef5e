"""PyIceberg's files in S3 by boto3, with its login: a request per file of metadata, where Arrow sends up to
four."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from botocore.exceptions import ClientError
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import Properties

from sluice.clients.s3.errors import error_code
from sluice.clients.s3.object_file import ObjectFile, get_object
from sluice.clients.s3.requests import connect, split
from sluice.clients.s3.unlisted import Unlisted
from sluice.config.platform_sections.lake import BUCKET_LISTS
from sluice.config.platform_sections.s3 import S3, of_properties

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_SCHEMES = ("s3://", "s3a://")
# S3's answers to a HEAD of an object that is not there.
_GONE = ("404", "NoSuchKey")
# Bytes of manifest lists and manifests that are kept in memory.
KEPT_BYTES = 16 * 1024 * 1024


class BotoFileIO(FileIO):
    """Reads, writes and deletes ``s3://`` by ``client``, and everything else as Arrow does."""

    def __init__(self, properties: Properties, client: S3Client) -> None:
        super().__init__(properties)
        is_unlisted = properties.get(BUCKET_LISTS) == "false"
        self._client = cast("S3Client", Unlisted(client)) if is_unlisted else client
        self._arrow = PyArrowFileIO(properties)
        self._kept: dict[tuple[str, str], bytes] = {}
        self._lock = threading.Lock()

    def new_input(self, location: str) -> InputFile:
        if location.startswith(_SCHEMES):
            return ObjectInput(location, self._client, self._whole)
        return self._arrow.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        if location.startswith(_SCHEMES):
            return ObjectOutput(location, self._client, self.new_input(location))
        return self._arrow.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        place = location if isinstance(location, str) else location.location
        if not place.startswith(_SCHEMES):
            self._arrow.delete(location)
            return
        bucket, key = split(place)
        self._client.delete_object(Bucket=bucket, Key=key)

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


class DeclaredFileIO(BotoFileIO):
    """What a catalog of PyIceberg makes by itself, of its properties."""

    def __init__(self, properties: Properties) -> None:
        super().__init__(properties, _client(of_properties(properties)))


@cache
def _client(s3: S3) -> S3Client:
    """One in a process: a catalog may make such files each time that it is asked for a table."""
    return connect(s3)


class ObjectInput(InputFile):
    """An object. Opening and reading it raise FileNotFoundError if it is gone, or botocore's errors."""

    def __init__(self, location: str, client: S3Client, whole: Callable[[str, str], bytes]) -> None:
        super().__init__(location)
        self._client, self._whole = client, whole
        self._bucket, self._key = split(location)

    def __len__(self) -> int:
        return self._client.head_object(Bucket=self._bucket, Key=self._key)["ContentLength"]

    def state(self) -> str | None:
        """A text that is another one if the object was overwritten; None if it is gone. One HEAD."""
        try:
            found = self._client.head_object(Bucket=self._bucket, Key=self._key)
        except ClientError as error:
            if error_code(error) in _GONE:
                return None
            raise
        said = (found.get("VersionId"), found["ETag"], found["ContentLength"], found["LastModified"])
        return " ".join(map(str, said))

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


class ObjectOutput(OutputFile):
    """An object, written whole when its stream is closed."""

    def __init__(self, location: str, client: S3Client, written: InputFile) -> None:
        super().__init__(location)
        self._client, self._written = client, written

    def __len__(self) -> int:
        return len(self._written)

    def exists(self) -> bool:
        return self._written.exists()

    def to_input_file(self) -> InputFile:
        return self._written

    def create(self, overwrite: bool = False) -> OutputStream:
        """Raises FileExistsError for an object that is there."""
        if not overwrite and self.exists():
            raise FileExistsError(f"{self.location} is there")
        return _ObjectStream(self._client, self.location)


class _ObjectStream(io.BytesIO):
    def __init__(self, client: S3Client, location: str) -> None:
        super().__init__()
        self._client, self._location = client, location

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        # Nothing is left of what could not be written whole.
        if error is None:
            self.close()
        else:
            super().close()

    def close(self) -> None:
        if not self.closed:
            bucket, key = split(self._location)
            content = io.BytesIO(self.getvalue())
            super().close()
            self._client.upload_fileobj(Fileobj=content, Bucket=bucket, Key=key)
