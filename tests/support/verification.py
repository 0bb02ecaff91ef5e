"""Verification of loads without Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.config import streams
from sluice.loads.verification.proof import short
from sluice.loads.verification.verify import LoadVerification

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.ledger.documents import Ledger


class RowsVerification(LoadVerification):
    """Verifies a load into a table of which the tests make few columns."""

    def wrong_columns(self, table: Table) -> list[str]:
        return []


class NotVerifiedError(Exception):
    """Has the load's problems."""


def verify(systems: Any, stream: str, ledger: Ledger, limit: float, run: str = "r") -> dict[str, Any]:
    """The short proof, after it was recorded. Raises NotVerifiedError."""
    verification = RowsVerification.of(systems, streams.load(stream), ledger, run)
    load = verification.verify(limit)
    if load.problems:
        verification.record_failure(load)
        raise NotVerifiedError("; ".join(load.problems))
    recorded, proof = verification.write_proof(load, lambda _: None)
    return short(proof, recorded.proof)


def wrong_columns(stream: str, ledger: Ledger, table: Table) -> list[str]:
    """Compare a table's columns with the stream's schema."""
    none: Any = None
    return LoadVerification(none, streams.load(stream), ledger, "r", {}, {}).wrong_columns(table)
