"""One Spark task's files, Hive layout.

Folders as Hive, and every reader of its layout, knows them: ``zipcode=10115/day=2026-01-31/``. Pure.

Small objects that count: of each kind the newest is found by one request, however many there are.

The work of one Spark task: rows, sorted by their folder, to one parquet file a folder.
"""

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

from sluice.io.s3 import connect
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.platform import S3

# What Hive and Spark write as %XX, besides control characters.
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f")
# Stands for null, and for an empty text: a folder cannot tell the one from the other.
NULL = "__HIVE_DEFAULT_PARTITION__"


def folder(columns: Sequence[str], values: Iterable[str | None]) -> str:
    """The folder of one combination of values, with ``/`` behind; ``values`` are texts, in columns' order."""
    return "".join(
        f"{_escape(column)}={_escape(value) if value else NULL}/"
        for column, value in zip(columns, values, strict=True)
    )


def _escape(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED or char < " " else char for char in text)


# Names are what is missing to this, so that the newest comes first: S3 lists in the order of names.
_MOST = 10**15 - 1
# What S3 answers where the object is there already.
THERE = frozenset({"PreconditionFailed", "412"})
_GONE = frozenset({"NoSuchKey", "404"})


class MarkerStore:
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


# Of the rows that a task gets: the texts of the columns that make the folder, and a row's hash.
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
# How often an upload of the same object by somebody else, at the same moment, is waited for.
_CONFLICTS = 5


class RowsDiffer(RuntimeError):
    """There is a file already where one was to be written, and it holds other rows."""

    code = ErrorCode.SINK_WRITE_FAILED


@dataclass(frozen=True)
class FolderWriter:
    """Writes ``<prefix><folder><name>`` in a bucket for every folder of a task's rows.

    To be given to ``mapInArrow``, over rows that are together with all of their folder, and sorted by it;
    gives one row (COUNTS_SCHEMA): files, rows, and the sum of the rows' hashes modulo 2^64. What is there
    already is counted, too, and is not written again; its metadata tell whether it holds the same rows:
    raises RowsDiffer where it does not. Raises botocore's errors where S3 does not take a file.
    """

    s3: S3
    bucket: str
    prefix: str
    name: str
    by: tuple[str, ...]

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        client = connect(self.s3)
        files, rows, total = 0, 0, 0
        waiting: deque[Future[None]] = deque()
        with ThreadPoolExecutor(_THREADS) as threads:
            for where, parts in itertools.groupby(_runs(self.by, batches), key=lambda run: run[0]):
                file = File(part for _, part in parts)
                files, rows, total = files + 1, rows + file.rows, (total + file.hash) % 2**64
                waiting.append(threads.submit(self._put, client, f"{self.prefix}{where}{self.name}", file))
                if len(waiting) > _THREADS:
                    waiting.popleft().result()
            for upload in waiting:
                upload.result()
        yield pyarrow.RecordBatch.from_pylist([{"files": files, "rows": rows, "hash": total}], _COUNTS)

    def _put(self, client: Any, key: str, file: File) -> None:
        said = {"sluice-rows": str(file.rows), "sluice-hash": str(file.hash)}
        with file.body as body:
            for attempt in itertools.count():
                body.seek(0)
                try:
                    client.put_object(Bucket=self.bucket, Key=key, Body=body, Metadata=said, IfNoneMatch="*")
                except ClientError as error:
                    code = error.response["Error"]["Code"]
                    if code in THERE:
                        self._refuse_other(client, key, said)
                    elif code != "ConditionalRequestConflict" or attempt == _CONFLICTS:
                        raise
                    else:
                        continue
                return

    def _refuse_other(self, client: Any, key: str, said: dict[str, str]) -> None:
        found = client.head_object(Bucket=self.bucket, Key=key)["Metadata"]
        there = {name: found.get(name) for name in said}
        if there != said:
            raise RowsDiffer(
                f"s3://{self.bucket}/{key} is there already with other rows ({there}, not {said}): the "
                "batch is not the one that was begun; look who wrote that file, remove it, then start the "
                "query again"
            )


class File:
    """A parquet file, written but not yet sent."""

    def __init__(self, parts: Iterator[pyarrow.RecordBatch], rows_per_group: int = ROWS_PER_GROUP) -> None:
        self.rows, self.hash = 0, 0
        self.body: IO[bytes] = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115
        first = self._counted(next(parts))
        with parquet.ParquetWriter(self.body, first.schema, compression="zstd") as writer:
            kept, size = [first], first.num_rows
            for part in parts:
                kept.append(self._counted(part))
                size += part.num_rows
                if size >= rows_per_group:
                    writer.write_table(pyarrow.Table.from_batches(kept))
                    kept, size = [], 0
            if kept:
                writer.write_table(pyarrow.Table.from_batches(kept))

    def _counted(self, part: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """The rows as they are written."""
        hashes = part.column(HASH).to_numpy().astype(numpy.uint64)
        self.rows += part.num_rows
        self.hash = (self.hash + int(hashes.sum(dtype=numpy.uint64))) % 2**64
        return part.drop_columns([HASH])


def _runs(
    by: tuple[str, ...], batches: Iterable[pyarrow.RecordBatch]
) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
    """Folder and rows, as long as the rows that follow are of the same."""
    names = [FOLDER.format(number) for number in range(len(by))]
    for batch in batches:
        values = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
        rows = batch.drop_columns(names)
        begin = 0
        for value, run in itertools.groupby(values):
            length = sum(1 for _ in run)
            yield folder(by, value), rows.slice(begin, length)
            begin += length
