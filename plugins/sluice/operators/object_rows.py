"""The rows of a source object, streamed again, against what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.model.rows import RowProof, reconcile

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.clients.keys import Document
    from sluice.hooks.platform import PlatformHook

# What the consumer writes before a record that it had published already; it stands for no row of its own.
REPEAT = "repeat:"


def check(hook: PlatformHook, table: Table, quarantine: Table, source: Document) -> RowProof:
    """Whether each row of the pinned version is published once or quarantined."""
    from sluice.clients import files
    from sluice.clients.bucket import ObjectVersion

    names = ("bucket", "key", "version_id", "etag", "size")
    version = ObjectVersion(**{name: source[name] for name in names})
    aside = (
        row[files.ROW]
        for row in files.quarantined(quarantine, files.equal(files.SOURCE, source["source_id"]))
        if not row["reason"].startswith(REPEAT)
    )
    return reconcile(
        hook.bucket(version.bucket).data_rows(version),
        files.source_rows(table, source["source_id"]),
        aside,
    )
