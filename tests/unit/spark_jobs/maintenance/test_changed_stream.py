"""Whether the change of a job is published already."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.clients.s3.requests import split
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.changes.published import KEEP_IDS, NO_CHANGES
from sluice.core.changes.result import ChangeResult
from sluice.core.offsets.deduplication import LoadedRows
from sluice.core.tables.rewrites import Rewrites, id_of_change
from spark_jobs.common.consumer.state import StreamState
from spark_jobs.common.maintenance.changed_stream import ChangedStream, ChangeRefused, UnknownChange
from tests.support.raising import raising

PLAN = ChangePlan("c1", Action.REPLAY, "topic")


def is_published(
    *ids: str, rewrites: Sequence[str] = (), planned_after: int = 0, newest: str | None = None
) -> bool:
    """With changes of these ids on ``main``; ``rewrites``: those that the table names. ``planned_after``: of
    the plan, and the ``newest`` of these."""
    changes = NO_CHANGES
    for change in ids:
        changes = changes.more(change, "")
    changes = replace(changes, rewrites=Rewrites(len(rewrites), tuple(rewrites)))
    stream: Any = object.__new__(ChangedStream)
    stream.plan, stream.spec = (
        replace(PLAN, changes=planned_after, newest=newest),
        SimpleNamespace(name="t", table="raw.t"),
    )
    return bool(stream.is_published(StreamState(changes=changes)))


LATER = [f"later-{number}" for number in range(KEEP_IDS)]


def test_the_table_names_it() -> None:
    assert is_published("c1")
    assert is_published("c1", *LATER[1:])
    assert not is_published()


def test_one_that_was_planned_again_after_it_was_published_is_not_made_twice() -> None:
    """Its ledger was restored: the new plan of its run has the same id."""
    assert is_published("c0", "c1", planned_after=2)


def test_two_attempts_at_the_same_head_have_documents_of_their_own() -> None:
    """One that was suspended before it published overwrote the document of the one that did."""
    objects: dict[tuple[str, str], bytes] = {}

    def put_object(**given: Any) -> None:
        objects[given["Bucket"], given["Key"]] = given["Body"]

    stream: Any = object.__new__(ChangedStream)
    stream._client = SimpleNamespace(put_object=put_object)
    stream.table = SimpleNamespace(documents=lambda: "s3://lake/raw/t", head=lambda ref: 7)
    published = stream.record(replace(ChangeResult.none(), id="c1", rows_out=3), LoadedRows())
    stream.record(replace(ChangeResult.none(), id="c1"), LoadedRows())
    assert len(objects) == 2
    assert json.loads(objects[split(published)])["rows_out"] == 3


def test_another_one_came_first() -> None:
    with raising(ChangeRefused, "1 changes are published", "planned after 0", "nothing was changed"):
        is_published("c2")


def test_as_many_others_after_a_restore_are_not_those_that_it_was_planned_after() -> None:
    with raising(ChangeRefused, "d1 is the newest", "planned after c0", "nothing was changed", "a new run"):
        is_published("d1", planned_after=1, newest="c0")
    # A plan of 0.1.0 has their number alone.
    for newest in ("d1", None):
        assert not is_published("d1", planned_after=1, newest=newest)


def test_one_that_the_changes_do_not_name_any_more_is_known_by_its_rewrite() -> None:
    """Whatever snapshots are kept: between it and the newest of a running stream those of batches expire."""
    assert is_published("c1", *LATER, rewrites=["compaction", id_of_change("c1", "key")])


@pytest.mark.parametrize("first", ["c1", "c2"])
def test_one_that_nothing_names_any_more_is_not_said_to_be_unmade(first: str) -> None:
    with raising(
        UnknownChange, "9 changes", "c1", "whether it is one of them", "never made", "Fix: ", "a new run"
    ) as caught:
        is_published(first, *LATER, rewrites=[id_of_change(LATER[0], "key")])
    # Reconciliation passes, too, if rows are there that were to go.
    assert not [text for text in ("nothing was changed", "reconciliation") if text in str(caught.value)]
