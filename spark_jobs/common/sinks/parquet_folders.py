"""Write a Spark task's rows as parquet files in folders, and numbered marker objects, to S3."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Any

import numpy
import pyarrow
from botocore.exceptions import ClientError
from pyarrow import parquet

from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.s3 import S3
from sluice.core.error_codes import ErrorCode

# What Hive and Spark write as %XX, besides control characters.
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f")
# For null and for an empty text alike.
NULL = "__HIVE_DEFAULT_PARTITION__"


def folder(columns: Sequence[str], values: Iterable[str | None]) -> str:
    """The Hive folder of ``values``, one per column: ``zipcode=10115/day=2026-01-31/``."""
    return "".join(
        f"{_escape(column)}={_escape(value) if value else NULL}/"
        for column, value in zip(columns, values, strict=True)
    )


def _escape(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED or char < " " else char for char in text)


# A name is the difference to this: S3 lists in the order of names, so the newest comes first.
_MAX_NUMBER = 10**15 - 1
# S3's error codes of a conditional put.
ALREADY_EXISTS = frozenset({"PreconditionFailed", "412"})
_NOT_FOUND = frozenset({"NoSuchKey", "404"})


class MarkerStore:
    """Numbered, immutable JSON objects below ``<prefix><kind>/`` of a bucket. Raises botocore's errors."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client, self._bucket, self._prefix = client, bucket, prefix

    def newest(self, kind: str) -> int | None:
        """The highest number of a kind, None if it has no object. One request."""
        folder = self._folder(kind)
        page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=folder, MaxKeys=1)
        for entry in page.get("Contents", []):
            return _MAX_NUMBER - int(entry["Key"].removeprefix(folder).removesuffix(".json"))
        return None

    def put(self, kind: str, number: int, document: Mapping[str, Any]) -> bool:
        """Create an object; False if it exists."""
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=self._key(kind, number),
                Body=json.dumps(document).encode(),
                ContentType="application/json",
                IfNoneMatch="*",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] in ALREADY_EXISTS:
                return False
            raise
        return True

    def get(self, kind: str, number: int) -> dict[str, Any] | None:
        """An object's document, None if it does not exist."""
        try:
            response = self._client.get_object(Bucket=self._bucket, Key=self._key(kind, number))
        except ClientError as error:
            if error.response["Error"]["Code"] in _NOT_FOUND:
                return None
            raise
        with response["Body"] as body:
            document: dict[str, Any] = json.load(body)
        return document

    def _folder(self, kind: str) -> str:
        return f"{self._prefix}{kind}/"

    def _key(self, kind: str, number: int) -> str:
        return f"{self._folder(kind)}{_MAX_NUMBER - number:015d}.json"


# Columns of a task's rows: the texts of the folder's columns, and the row's hash.
FOLDER = "_sluice_folder_{}"
HASH = "_sluice_hash"
COUNTS_SCHEMA = "files long, rows long, hash decimal(20, 0)"

_COUNTS = pyarrow.schema(
    [("files", pyarrow.int64()), ("rows", pyarrow.int64()), ("hash", pyarrow.decimal128(20, 0))]
)
ROWS_PER_GROUP = 64 * 1024
# A file is in memory to this size, and on the task's disk beyond.
_SPOOL_BYTES = 8 * 1024 * 1024
_THREADS = 8
# Retries if another upload of the same object runs at the same moment.
_CONFLICTS = 5


class BatchConflict(RuntimeError):
    """The file of this batch exists, with other rows."""

    code = ErrorCode.SINK_WRITE_FAILED


@dataclass(frozen=True)
class FolderWriter:
    """Writes ``<prefix><folder><name>`` in a ``bucket`` for every folder of a task's rows, for
    ``mapInArrow``. ``by``: the columns whose values name the folders; ``s3``: opened in the task.

    A folder's rows must be in one task, sorted by folder. Gives one row (COUNTS_SCHEMA): files, rows, and the
    sum of the rows' hashes modulo 2^64, existing files included. Raises BatchConflict and botocore's errors.
    """

    s3: S3
    bucket: str
    prefix: str
    name: str
    by: tuple[str, ...]

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        client = connect(self.s3)
        files, rows, total = 0, 0, 0
        uploads: deque[Future[None]] = deque()
        with ThreadPoolExecutor(_THREADS) as threads:
            for path, parts in itertools.groupby(_runs(self.by, batches), key=lambda run: run[0]):
                file = File(part for _, part in parts)
                files, rows, total = files + 1, rows + file.rows, (total + file.hash) % 2**64
                uploads.append(threads.submit(self._put, client, f"{self.prefix}{path}{self.name}", file))
                if len(uploads) > _THREADS:
                    uploads.popleft().result()
            for upload in uploads:
                upload.result()
        yield pyarrow.RecordBatch.from_pylist([{"files": files, "rows": rows, "hash": total}], _COUNTS)

    def _put(self, client: Any, key: str, file: File) -> None:
        metadata = {"sluice-rows": str(file.rows), "sluice-hash": str(file.hash)}
        with file.body as body:
            for attempt in itertools.count():
                body.seek(0)
                try:
                    client.put_object(
                        Bucket=self.bucket, Key=key, Body=body, Metadata=metadata, IfNoneMatch="*"
                    )
                except ClientError as error:
                    code = error.response["Error"]["Code"]
                    if code in ALREADY_EXISTS:
                        self._check_same_rows(client, key, metadata)
                    elif code != "ConditionalRequestConflict" or attempt == _CONFLICTS:
                        raise
                    else:
                        continue
                return

    def _check_same_rows(self, client: Any, key: str, expected: dict[str, str]) -> None:
        metadata = client.head_object(Bucket=self.bucket, Key=key)["Metadata"]
        existing = {name: metadata.get(name) for name in expected}
        if existing != expected:
            raise BatchConflict(
                f"s3://{self.bucket}/{key} exists with other rows ({existing}, expected {expected}): the "
                "batch is not the one that was started; find its writer, remove the file, then restart the "
                "query"
            )


class File:
    """A parquet file before its upload."""

    def __init__(self, parts: Iterator[pyarrow.RecordBatch]) -> None:
        self.rows, self.hash = 0, 0
        self.body: IO[bytes] = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115
        first = self._count(next(parts))
        with parquet.ParquetWriter(self.body, first.schema, compression="zstd") as writer:
            pending, size = [first], first.num_rows
            for part in parts:
                pending.append(self._count(part))
                size += part.num_rows
                if size >= ROWS_PER_GROUP:
                    writer.write_table(pyarrow.Table.from_batches(pending))
                    pending, size = [], 0
            if pending:
                writer.write_table(pyarrow.Table.from_batches(pending))

    def _count(self, part: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        hashes = part.column(HASH).to_numpy().astype(numpy.uint64)
        self.rows += part.num_rows
        self.hash = (self.hash + int(hashes.sum(dtype=numpy.uint64))) % 2**64
        return part.drop_columns([HASH])


def _runs(
    by: tuple[str, ...], batches: Iterable[pyarrow.RecordBatch]
) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
    names = [FOLDER.format(number) for number in range(len(by))]
    for batch in batches:
        values = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
        rows = batch.drop_columns(names)
        begin = 0
        for value, run in itertools.groupby(values):
            length = sum(1 for _ in run)
            yield folder(by, value), rows.slice(begin, length)
            begin += length
