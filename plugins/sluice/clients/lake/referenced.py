"""The files that a table's metadata names: manifest lists, manifests, data files, statistics, documents."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile, read_manifest_list
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from sluice.clients.lake.errors import asking
from sluice.core.schema_versions import documents
from sluice.core.tables.file_removal import path_of

log = logging.getLogger(__name__)

PROGRESS_SECONDS = 10.0


class ReferencedFiles:
    """The files of one table's states. Each manifest list and manifest is read once, whatever names it.
    ``documents``: the paths, without their endings, of those that properties of the states name that were
    read."""

    def __init__(self, io: FileIO, table: str) -> None:
        self._io, self._table = io, table
        self.documents = set[str]()
        self._lists: dict[str, list[str]] = {}
        self._manifests: dict[str, list[str]] = {}
        # Sizes of all files that were read; one text per path, since merged manifests name files again.
        self._sizes: dict[str, int | None] = {}
        self._paths: dict[str, str] = {}
        self._next_line = time.monotonic() + PROGRESS_SECONDS

    def of(self, location: str) -> tuple[dict[str, int | None], set[str]]:
        """What the metadata file ``location`` and its snapshots name: path (``path_of``) -> size in bytes if
        metadata tells, of those that a branch or a tag reaches; and the paths that only others name.

        A snapshot that no ref reaches is of a writer that was suspended and never published it: some of its
        files may be gone. Raises Refused with LAKE_FILE_MISSING if ``location`` or another's list or manifest
        is gone.
        """
        with asking(f"metadata of table {self._table}"):
            metadata = FromInputFile.table_metadata(self._io.new_input(location))
            self.documents.update(map(path_of, documents.named(metadata.location, metadata.properties)))
            names = {self._named(location, None)}
            for statistics in (*metadata.statistics, *metadata.partition_statistics):
                names.add(self._named(statistics.statistics_path, statistics.file_size_in_bytes))
            reached = _reached(metadata)
            names |= self._files_of(s for s in metadata.snapshots if s.snapshot_id in reached)
            others = set[str]()
            for snapshot in metadata.snapshots:
                if snapshot.snapshot_id not in reached:
                    try:
                        others |= self._files_of([snapshot])
                    except FileNotFoundError as error:
                        log.warning("snapshot %d is on no branch: %s", snapshot.snapshot_id, error)
        return {name: self._sizes[name] for name in names}, others - names

    def _files_of(self, snapshots: Iterable[Snapshot]) -> set[str]:
        # Collected first: thousands of snapshots name the same manifests.
        names, manifests = set[str](), set[str]()
        for snapshot in snapshots:
            names.add(self._named(snapshot.manifest_list, None))
            manifests.update(self._manifests_of(snapshot.manifest_list))
        for manifest in manifests:
            names.update(self._manifests[manifest])
        return names | manifests

    def _manifests_of(self, manifest_list: str) -> list[str]:
        if manifest_list not in self._lists:
            found = list(read_manifest_list(self._io.new_input(manifest_list)))
            self._lists[manifest_list] = [self._read(manifest) for manifest in found]
        return self._lists[manifest_list]

    def _read(self, manifest: ManifestFile) -> str:
        name = self._named(manifest.manifest_path, manifest.manifest_length)
        if name not in self._manifests:
            self._manifests[name] = list(self._entries(manifest))
            if time.monotonic() >= self._next_line:
                self._next_line = time.monotonic() + PROGRESS_SECONDS
                log.info(
                    "manifests read table=%s lists=%d manifests=%d files=%d",
                    self._table, len(self._lists), len(self._manifests), len(self._sizes),
                )  # fmt: skip
        return name

    def _entries(self, manifest: ManifestFile) -> Iterator[str]:
        # Removed entries stay in manifests that are kept, and their files need not.
        for entry in manifest.fetch_manifest_entry(self._io, discard_deleted=True):
            yield self._named(entry.data_file.file_path, entry.data_file.file_size_in_bytes)

    def _named(self, uri: str, size: int | None) -> str:
        path = path_of(uri)
        path = self._paths.setdefault(path, path)
        self._sizes[path] = size
        return path


def _reached(metadata: TableMetadata) -> set[int]:
    """The snapshots of branches and tags, with the ancestors that are kept."""
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    reached = set[int]()
    for ref in metadata.refs.values():
        number: int | None = ref.snapshot_id
        while number is not None and number in parents and number not in reached:
            reached.add(number)
            number = parents[number]
    return reached
