"""Rows that a load rejected, under a declaration that accepts them: the way on that its red task names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.changes.plan import plan_action
from sluice.changes.stream import PlannedStream
from sluice.config import streams
from sluice.config.sending_rules import SendingRules
from sluice.core.changes.published import Changes
from sluice.core.changes.result import ChangeResult
from sluice.loads.planning import plan as plans
from tests.support import lake as lakes
from tests.support.loads import TOPIC_ID, Loads
from tests.support.raising import raising

A = "nyc_taxi/a.csv"
ROWS = 3
OLD, NEW = "the old declaration", "the new declaration"


class Rejecting(Loads):
    """Whose job rejects every row after the first ``accepted`` of a source, unless it was planned by the
    declaration NEW."""

    accepted = 0

    def _send(self, context: Any, options: Any) -> None:
        for source in plans.plan_of(self.ledger, context["run_id"])["sources"]:
            if source["produced"]:
                continue
            good = ROWS if source["rules"]["declaration"] == NEW else self.accepted
            self.commit([(source["source_id"], row) for row in range(good)])
            lakes.quarantine(
                self.lake,
                [
                    {
                        "stage": "producer", "reason": "column a: '1/31/2016' is not a date", "object": A,
                        "line": row + 2, "_source_id": source["source_id"], "_source_row": row,
                    }
                    for row in range(good, ROWS)
                ],
            )  # fmt: skip

    def revert(self, run: str) -> None:
        """As action revert of the change DAG plans and publishes it."""
        kafka = SimpleNamespace(describe=lambda topic: SimpleNamespace(id=TOPIC_ID))
        systems: Any = SimpleNamespace(
            s3=self.s3.as_client(), lake=self.lake, source=self.source, kafka=kafka
        )
        stream = PlannedStream(systems, streams.load("nyc_taxi"), self.ledger, "change")
        plan = plan_action(stream, {"action": "revert", "load": run})
        none = ChangeResult.none()
        document = replace(none, id=plan.id).after(plan, none).to_document()
        self.s3.objects["warehouse", "changes/c.json"] = json.dumps(document).encode()
        self.lake.catalog.load_table(lakes.TABLE).delete(f"_source_id = '{plan.sources_out[0]}'")
        said = Changes().more(plan.id, "s3://warehouse/changes/c.json").properties()
        more = {"topic-id": TOPIC_ID, "writer": self.writer}
        summary = lakes.summary("change", 1, {0: self.end}, more=more)
        table = self.lake.catalog.load_table(lakes.TABLE)
        table.append(lakes.ROWS.empty_table(), snapshot_properties=summary | said)


@pytest.fixture(params=[0, 1], ids=["all", "most"])
def loads(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rejecting:
    """A red load of an object, of whose rows all or most were rejected; then the declaration was changed."""
    made = Rejecting(tmp_path)
    made.accepted = request.param
    made.upload("a", ROWS)
    declare(monkeypatch, OLD)
    made.produce("r1")
    way_on = (
        "nyc_taxi_change with action=revert and load=r1, upload the file again, and trigger nyc_taxi_load"
    )
    with raising(AirflowFailException, "SLU-401", way_on, "load_changed_objects"):
        made.validate("r1", max_quarantined_percent=5)
    declare(monkeypatch, NEW)
    return made


def declare(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(SendingRules, "declared_by", lambda *_: text)


def test_the_way_on_loads_every_row(loads: Rejecting) -> None:
    loads.revert("r1")
    loads.upload("a", ROWS)
    loads.produce("r2", load_changed_objects=True)
    proof = loads.validate("r2", max_quarantined_percent=0)
    assert (proof["published"], proof["quarantined"]) == (ROWS, 0)
    (source,) = plans.plan_of(loads.ledger, "r2")["sources"]
    assert source["rules"]["declaration"] == NEW
    # The next load finds it verified, and sends nothing.
    end = loads.end
    assert loads.load("r3")["verified_before"] == 1
    assert loads.end == end


@pytest.mark.parametrize(
    ("is_reverted", "is_uploaded", "is_asked"),
    [(False, True, True), (True, False, True), (True, True, False)],
    ids=["not reverted", "not uploaded", "not asked for"],
)
def test_no_part_of_the_way_on_can_be_left_out(
    loads: Rejecting, is_reverted: bool, is_uploaded: bool, is_asked: bool
) -> None:
    end = loads.end
    if is_reverted:
        loads.revert("r1")
    if is_uploaded:
        loads.upload("a", ROWS)
    loads.produce("r2", **({"load_changed_objects": True} if is_asked else {}))
    assert loads.end == end
