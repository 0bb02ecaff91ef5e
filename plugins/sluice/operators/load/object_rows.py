"""The rows of a source object, streamed again, against what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.operators.load import source_rows

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.hooks.platform import PlatformHook
    from sluice.model.spec.ledger import Document
    from sluice.model.verification.rows import RowProof


def check_object_rows(hook: PlatformHook, table: Table, quarantine: Table, source: Document) -> RowProof:
    """Whether each row of the pinned version is published once or quarantined."""
    from sluice.clients.bucket import ObjectVersion

    names = ("bucket", "key", "version_id", "etag", "size")
    version = ObjectVersion(**{name: source[name] for name in names})
    return source_rows.check_generated_rows(table, quarantine, source, hook.bucket(version.bucket).data_rows(version))
