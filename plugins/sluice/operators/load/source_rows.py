"""The numbered rows of a source against what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.model.verification.rows import RowProof, reconcile

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.model.spec.ledger import Document

# What the consumer writes before a record that it had published already; it stands for no row of its own.
REPEAT = "repeat:"


def check_generated_rows(table: Table, quarantine: Table, source: Document, rows: int) -> RowProof:
    """Whether each of the source's ``rows`` rows is published once or quarantined."""
    from sluice.clients.lake import files

    aside = (
        row[files.ROW]
        for row in files.quarantined(quarantine, files.equal(files.SOURCE, source["source_id"]))
        if not row["reason"].startswith(REPEAT)
    )
    return reconcile(rows, files.source_rows(table, source["source_id"]), aside)
