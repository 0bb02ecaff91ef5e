"""The documents beside a table that its properties name by their content's digest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from sluice.core.schema_versions import followed
from sluice.core.schema_versions.offsets import FOLDER as OFFSETS
from sluice.core.schema_versions.offsets import SchemaOffsets
from sluice.core.tables.file_removal import MAX_WRITE_AGE, StoredFile
from sluice.core.tables.storage import documents_place

FOLDERS = (followed.FOLDER, OFFSETS)


def named(location: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Address without its ending, which tells the format -> digest, of each that a table names.
    ``location``: the table's folder; ``properties``: its own."""
    digests = {
        followed.FOLDER: properties.get(followed.PROPERTY) or "",
        OFFSETS: SchemaOffsets.of(properties).document,
    }
    place = documents_place(location, properties)
    return {f"{place}/{folder}/{digest}": digest for folder, digest in digests.items() if digest}


def stem(path: str) -> str:
    """A document's address without its ending."""
    return path.rsplit(".", 1)[0]


def stored(documents: Collection[str], files: Iterable[StoredFile]) -> tuple[set[str], list[str]]:
    """The paths of those ``documents``, paths without their endings, that ``files`` has; and a line for each
    that it lacks."""
    found = {file.path for file in files if stem(file.path) in documents}
    missing = set(documents) - set(map(stem, found))
    return found, [f"{one}.* is missing" for one in sorted(missing)]


def may_be_named(written: datetime, now: datetime) -> bool:
    """Whether a commit may name a document of that age: by then nothing that removes files has taken it for
    one that no state needs."""
    return now - written < MAX_WRITE_AGE
