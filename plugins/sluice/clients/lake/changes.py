"""The changes that a table's ``main`` has, and the results that their snapshots name."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from sluice.clients.lake.commits import ancestors, summary_of
from sluice.clients.s3.requests import read_change
from sluice.core.changes.published import Changes, changes_in
from sluice.core.changes.result import ChangeResult
from sluice.core.tables.rewrites import Rewrites
from sluice.core.tables.summary import of_stream

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def published_changes(table: Table) -> Changes:
    """The changes that ``main`` has."""
    found = changes_in(of_stream(summary_of(snapshot) for snapshot in ancestors(table)))
    return replace(found, rewrites=Rewrites.of(table.properties))


def removed_by(client: S3Client, changes: Changes) -> ChangeResult:
    """The result of the newest of ``changes`` after which rows are removed on purpose; at most one GET.

    Raises Refused (also if it is gone) or Unreachable."""
    return ChangeResult.at(changes.removed_address, partial(read_change, client))
