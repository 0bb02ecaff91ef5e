"""Files as a manifest lists them, in a tenth of the memory that PyIceberg's take: of thousands of files only
what their checks and their readers ask for is kept."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TypeVar

from pyiceberg.avro.file import AvroFile, StructProtocol
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from sluice.clients.lake.reading.files import OFFSET, PARTITION

T = TypeVar("T")
# Field ids of PyIceberg's classes and enums in an entry.
_TYPES: dict[int, Callable[..., StructProtocol]] = {-1: ManifestEntry, 2: DataFile}
_ENUMS: dict[int, Callable[..., Enum]] = {
    0: ManifestEntryStatus,
    101: FileFormat,
    134: DataFileContent,
}


def entries(io: FileIO, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """The entries of a manifest, those of removed files too, one by one: PyIceberg makes a list of them.
    Snapshot and file sequence number are the manifest's where an entry leaves them out."""
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path), MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION], _TYPES, _ENUMS
    ) as reader:
        for entry in reader:
            if entry.snapshot_id is None and manifest.added_snapshot_id is not None:
                entry.snapshot_id = manifest.added_snapshot_id
            is_inherited = manifest.sequence_number == 0 or entry.status == ManifestEntryStatus.ADDED
            if entry.file_sequence_number is None and is_inherited:
                entry.file_sequence_number = manifest.sequence_number
            entry.data_file.spec_id = manifest.partition_spec_id
            yield entry


class ListedFile(DataFile):
    """A data file without what is not asked of one here: bounds and numbers of nulls are of the columns with
    the record's place alone, and some of PyIceberg's attributes are missing."""

    __slots__ = ("_bounds", "_content", "_format", "_nulls", "_path", "_place", "_records", "_size", "_sizes")
    _path: str
    _size: int
    _records: int
    _content: DataFileContent
    _format: FileFormat
    _place: tuple[int, Record]
    # Field ids, and the sizes of these columns: 8 bytes each.
    _sizes: tuple[tuple[int, ...], bytes] | None
    # (field id, whether it is a lower bound, where it ends) of each bound, and all of them.
    _bounds: tuple[tuple[tuple[int, bool, int], ...], bytes]
    # Field ids of columns with nulls, and their numbers.
    _nulls: tuple[tuple[int, int], ...]

    @property
    def content(self) -> DataFileContent:
        return self._content

    @property
    def file_path(self) -> str:
        return self._path

    @property
    def file_format(self) -> FileFormat:
        return self._format

    @property
    def partition(self) -> Record:
        return self._place[1]

    @property  # type: ignore[misc]
    def spec_id(self) -> int:
        return self._place[0]

    @property
    def record_count(self) -> int:
        return self._records

    @property
    def file_size_in_bytes(self) -> int:
        return self._size

    @property
    def column_sizes(self) -> dict[int, int]:
        # As PyIceberg's, whose type does not say it.
        if self._sizes is None:
            return None  # type: ignore[return-value]
        ids, sizes = self._sizes
        return dict(zip(ids, array("q", sizes), strict=True))

    @property
    def null_value_counts(self) -> dict[int, int]:
        return dict(self._nulls)

    @property
    def lower_bounds(self) -> dict[int, bytes]:
        return self._bounds_of(is_lower=True)

    @property
    def upper_bounds(self) -> dict[int, bytes]:
        return self._bounds_of(is_lower=False)

    def _bounds_of(self, *, is_lower: bool) -> dict[int, bytes]:
        found, begin = dict[int, bytes](), 0
        places, values = self._bounds
        for key, is_of_lower, end in places:
            if is_of_lower == is_lower:
                found[key] = values[begin:end]
            begin = end
        return found

    def __repr__(self) -> str:
        return f"ListedFile({self._path})"


class ListedFiles:
    """Makes those of a table. What many files have alike is kept once."""

    def __init__(self, table: Table) -> None:
        schema = table.schema()
        found = (schema.find_field(name) for name in (PARTITION, OFFSET) if name in schema.column_names)
        self._ids = tuple(field.field_id for field in found)
        self._alike: dict[object, object] = {}

    def of(self, file: DataFile) -> ListedFile:
        made = ListedFile.__new__(ListedFile)
        made._path, made._size, made._records = file.file_path, file.file_size_in_bytes, file.record_count
        made._content, made._format = file.content, file.file_format
        made._place = self._place(file)
        sizes = file.column_sizes
        made._sizes = (
            None if sizes is None else (self._once(tuple(sizes)), array("q", sizes.values()).tobytes())
        )
        made._bounds = self._bounds(file)
        nulls = file.null_value_counts or {}
        made._nulls = tuple((key, nulls[key]) for key in self._ids if nulls.get(key))
        return made

    def _bounds(self, file: DataFile) -> tuple[tuple[tuple[int, bool, int], ...], bytes]:
        places, values = list[tuple[int, bool, int]](), b""
        for is_lower, bounds in ((True, file.lower_bounds), (False, file.upper_bounds)):
            for key in self._ids:
                if bounds and (one := bounds.get(key)) is not None:
                    values += one
                    places.append((key, is_lower, len(values)))
        return self._once(tuple(places)), values

    def _place(self, file: DataFile) -> tuple[int, Record]:
        partition = file.partition
        values = tuple(partition[number] for number in range(len(partition)))
        return self._alike.setdefault(("place", file.spec_id, values), (file.spec_id, partition))  # type: ignore[return-value]

    def _once(self, one: T) -> T:
        return self._alike.setdefault(one, one)  # type: ignore[return-value]
