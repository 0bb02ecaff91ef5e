"""The files that metadata files of a table name: manifest lists, manifests, data files, statistics."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile, read_manifest_list
from pyiceberg.serializers import FromInputFile

from sluice.clients.lake.catalog import asking
from sluice.model.verification.file_removal import path_of

log = logging.getLogger(__name__)

PROGRESS_SECONDS = 10.0


class ReferencedFiles:
    """The files of one table's states. Each manifest list and manifest is read once, whatever names it."""

    def __init__(self, io: FileIO, table: str) -> None:
        self._io, self._table = io, table
        self._lists: dict[str, list[str]] = {}
        self._manifests: dict[str, list[str]] = {}
        # Of all that were read; one text per path, since merged manifests name files again.
        self._sizes: dict[str, int | None] = {}
        self._paths: dict[str, str] = {}
        self._next_line = time.monotonic() + PROGRESS_SECONDS

    def of(self, location: str) -> dict[str, int | None]:
        """Path (``path_of``) -> size in bytes if metadata tells: of the metadata file ``location``, and of
        all files that its snapshots name, also those on branches and staged ones.

        Raises Refused with LAKE_FILE_MISSING if one of its metadata files, lists or manifests is gone.
        """
        with asking(f"metadata of table {self._table}"):
            metadata = FromInputFile.table_metadata(self._io.new_input(location))
            names = {self._named(location, None)}
            for statistics in (*metadata.statistics, *metadata.partition_statistics):
                names.add(self._named(statistics.statistics_path, statistics.file_size_in_bytes))
            # Collected first: thousands of snapshots name the same manifests.
            manifests = set[str]()
            for snapshot in metadata.snapshots:
                names.add(self._named(snapshot.manifest_list, None))
                manifests.update(self._manifests_of(snapshot.manifest_list))
            for manifest in manifests:
                names.update(self._manifests[manifest])
            names |= manifests
        return {name: self._sizes[name] for name in names}

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
