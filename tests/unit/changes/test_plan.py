"""Plans of changes: what is asked for is checked before anything is done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from sluice.changes import plan as change_plans
from sluice.changes import records as record_changes
from sluice.changes.plan import plan_action
from sluice.changes.quarantined import QuarantinedRecords
from sluice.changes.stream import PlannedStream
from sluice.clients.kafka import reader
from sluice.config import streams
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.changes.published import Changes
from sluice.core.changes.result import ChangeResult, RemovedRecord
from sluice.core.errors import Refused
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.without_record import WithoutRecord
from sluice.ledger.keys import produced_key, run_key
from sluice.loads.known.verified import VerifiedSources
from tests.support import lake as lakes
from tests.support.loads import KeptLoads, Loads
from tests.support.raising import raising

TOPIC = "nyc-avro-topic"


class World:
    """Two loads of three rows each: offsets [0, 3) and [3, 6) of partition 0."""

    def __init__(self, kept: KeptLoads) -> None:
        self.loads = Loads(kept.folder, kept=kept)
        self.first, self.topic_id = 0, "topic-1"
        self.times: dict[int, int] = {}
        self.spec = streams.load("nyc_taxi")

    @property
    def hook(self) -> Any:
        kafka = SimpleNamespace(
            describe=lambda topic: SimpleNamespace(id=self.topic_id),
            begins=lambda topic: {0: self.first},
            ends=self.loads.ends,
            first_after=lambda topic, at, ends: {0: self.times.get(at, ends[0])},
        )
        return SimpleNamespace(
            s3=self.loads.s3.as_client(),
            lake=self.loads.lake,
            kafka=kafka,
            source=self.loads.source,
            batch_log=self.loads.batch_log,
            platform=SimpleNamespace(kafka=None),
        )

    def marker(self) -> None:
        """A batch of one offset, which has no record."""
        end = self.loads.end
        self.loads.end += 1
        more = {"topic-id": self.topic_id, "writer": self.loads.writer}
        said = WithoutRecord(of({0: (end, end + 1)})).properties()
        summary = lakes.summary("batch", 1, {0: end + 1}, ranges={0: (end, end + 1)}, more=more)
        lakes.append(self.loads.lake, [], summary | said)

    def plan(self, **params: Any) -> ChangePlan:
        stream = PlannedStream(self.hook, self.spec, self.loads.ledger, "run")
        return plan_action(stream, {"action": "replay", **params})

    def refused(self, *parts: str, **params: Any) -> None:
        with raising(Refused, *parts, "Fix: "):
            self.plan(**params)

    def source(self, name: str) -> str:
        return str(self.loads.source.head(f"nyc_taxi/{name}.csv").source_id)

    def reverted(self, name: str, source: str = "") -> None:
        """As after a change that took the rows of this source out; default: the object's newest version."""
        plan = ChangePlan("c1", Action.REVERT, TOPIC, reverts=(source or self.source(name),))
        gone = of({0: (0, 3)} if name == "a" else {0: (3, 6)})
        none = ChangeResult.none()
        result = ChangeResult("c1", Action.REVERT, gone, 3, none.out, none.out, none.out, 0, 1, 0)
        self.published(result.after(plan, none))

    def removed(self, plan: ChangePlan, records: list[RemovedRecord]) -> None:
        """As after the change of a plan of action remove."""
        result = replace(ChangeResult.none(), id="c1", out=plan.rows_out, records=records)
        self.published(result.after(plan, ChangeResult.none()))

    def published(self, result: ChangeResult) -> None:
        document = result.to_document()
        self.loads.s3.objects["warehouse", "changes/c1.json"] = json.dumps(document).encode()
        summary = lakes.summary(
            "change", 1, {0: 6}, more={"topic-id": "topic-1", "writer": self.loads.writer}
        )
        said = Changes().more("c1", "s3://warehouse/changes/c1.json").properties()
        table = self.loads.lake.catalog.load_table(lakes.TABLE)
        table.append(lakes.ROWS.empty_table(), snapshot_properties=summary | said)


def of(pairs: dict[int, tuple[int, int]]) -> OffsetRanges:
    return OffsetRanges.of({partition: [pair] for partition, pair in pairs.items()})


@pytest.fixture(scope="module")
def two_loads() -> list[KeptLoads]:
    """Made by the first test: a load needs what each test has of Airflow."""
    return []


@pytest.fixture
def world(two_loads: list[KeptLoads], tmp_path_factory: pytest.TempPathFactory) -> World:
    if not two_loads:
        folder = tmp_path_factory.mktemp("loads")
        loads = Loads(folder)
        for name in ("a", "b"):
            loads.upload(name)
            loads.load(f"load-{name}", objects=[f"nyc_taxi/{name}.csv"])
        two_loads.append(KeptLoads(loads, folder))
    return World(two_loads[0])


def test_a_range_goes_and_comes(world: World) -> None:
    for text in ("0=[1,4)", f"{TOPIC}: 0=[1,4)"):
        plan = world.plan(ranges=text)
        assert (plan.rows_out, plan.rows_in) == (of({0: (1, 4)}), of({0: (1, 4)}))
    assert ChangePlan.from_document(json.loads(json.dumps(plan.to_document()))) == plan


def test_offsets_without_a_record_do_not_come(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.marker()
    delivered = OffsetRanges()
    monkeypatch.setattr(reader, "delivered_among", lambda *given: delivered)
    plan = world.plan(ranges="0=[4,7)")
    assert (plan.rows_out, plan.rows_in) == (of({0: (4, 6)}), of({0: (4, 6)}))
    world.refused("no record is in the range", ranges="0=[6,7)")
    # The consumer was wrong, so the record must come.
    delivered = of({0: (6, 7)})
    assert world.plan(ranges="0=[4,7)").rows_in == of({0: (4, 7)})


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("0=[4,1)", ["0", "[4,1)"]),
        ("0=[-1,3)", ["-1"]),
        ("0=[0,3),[2,4)", ["overlap"]),
        ("7=[0,1)", ["partition 7 is none of raw.nyc_taxi"]),
        ("0=[5,9)", ["0=[6,9)", "is not published by the stream, which has 0=[0,6)"]),
        ("other: 0=[0,1)", ["'other' is not the topic of nyc_taxi"]),
        ("nonsense", []),
    ],
)
def test_a_range_that_is_not_there_is_refused(world: World, text: str, parts: list[str]) -> None:
    world.refused(*parts, ranges=text)


def test_a_plan_names_the_changes_that_it_was_made_after(world: World) -> None:
    first = world.plan(ranges="0=[3,6)")
    assert (first.changes, first.newest) == (0, "")
    world.reverted("a")
    plan = world.plan(ranges="0=[3,6)")
    assert (plan.changes, plan.newest) == (1, "c1")
    document = json.loads(json.dumps(plan.to_document()))
    assert ChangePlan.from_document(document) == plan
    del document["newest"]
    assert ChangePlan.from_document(document) == replace(plan, newest=None), "a plan of 0.1.0"


def test_a_run_whose_change_is_published_is_not_planned_again_when_the_ledger_lost_its_plan(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left to do is another plan: its verification would find that records of it did not come."""
    world.reverted("a")
    monkeypatch.setattr(change_plans, "change_id", lambda run: "c1")
    asked = {"action": "replay", "ranges": "0=[3,6)"}
    with raising(Refused, "'r'", "c1", "has lost its plan", "Fix: trigger a new run") as caught:
        change_plans.plan_change(world.hook, world.spec, world.loads.ledger, "r", asked, lambda: True)
    assert caught.value.code == "SLU-306"
    assert world.loads.ledger.get(run_key("r", "change")) is None


def test_a_topic_that_was_recreated_has_other_records(world: World) -> None:
    world.topic_id = "topic-2"
    world.refused("was recreated: its id is topic-2, raw.nyc_taxi has topic-1", ranges="0=[0,1)")


def test_a_time_span_is_the_records_between(world: World) -> None:
    world.times = {1_700_000_000_000: 2, 1_700_000_060_000: 5}
    span = {"from_time": "2023-11-14T22:13:20Z", "until_time": "2023-11-14T22:14:20+00:00"}
    assert world.plan(**span).rows_in == of({0: (2, 5)})
    # Behind the newest record.
    assert world.plan(from_time=span["from_time"], until_time="2030-01-01").rows_in == of({0: (2, 6)})
    world.times[1_700_000_060_000] = 1
    world.refused("partition 0: the record at offset 1", "out of order", **span)
    world.refused("ends before it begins", from_time=span["until_time"], until_time=span["from_time"])
    world.refused("'soon' is no time", from_time="soon", until_time="2030-01-01")
    world.refused("needs from_time and until_time", from_time="2030-01-01")
    world.refused("either ranges or a time span")
    world.refused("either ranges or a time span", ranges="0=[0,1)", **span)
    world.refused("no record is in the range", from_time="2030-01-01", until_time="2030-01-02")


def test_what_retention_deleted_is_named_or_left_as_it_is(world: World) -> None:
    world.first = 2
    world.refused(f"{TOPIC}: retention has deleted 0=[0,2)", "partial", ranges="0=[0,4)")
    plan = world.plan(ranges="0=[0,4)", partial=True)
    assert plan.rows_in == plan.rows_out == of({0: (2, 4)})


def test_what_the_topic_has_lost_and_the_quarantine_has_comes_from_there(world: World) -> None:
    world.loads.withhold("f" * 16, 1)
    rejected = {"stage": "consumer", "reason": "it is bad", "_kafka_partition": 0}
    lakes.quarantine(world.loads.lake, [{**rejected, "_kafka_offset": offset} for offset in (7, 8)])
    world.loads.commit([], rejected=2)
    world.first = 8
    assert world.plan(action="retry_quarantine").rows_in == of({0: (7, 9)})
    assert world.plan(ranges="0=[7,9)").rows_in == of({0: (7, 9)})
    parts = ("retention has deleted 0=[5,6)", "raw.nyc_taxi_quarantine does not have them")
    world.refused(*parts, ranges="0=[5,9)")


def test_a_load_is_reverted_by_the_sources_that_it_sent(world: World) -> None:
    plan = world.plan(action="revert", load="load-a")
    assert plan.sources_out == plan.reverts == (world.source("a"),)
    assert not plan.rows_in
    world.refused("load is empty", action="revert")
    world.refused("load 'none' is not known, or sent no record itself.", action="revert", load="none")
    # It sent nothing: both were sent before.
    world.loads.load("again", verify_again=True)
    world.refused("sent no record itself", "load-a, load-b", action="revert", load="again")


def test_a_reverted_load_is_not_reverted_again_nor_replayed_but_redone(world: World) -> None:
    world.refused("load 'load-a' is not reverted", action="redo", load="load-a")
    world.reverted("a")
    world.refused("1 of its 1 sources are reverted already", action="revert", load="load-a")
    assert world.plan(ranges="0=[0,6)").rows_in == of({0: (3, 6)})
    world.refused("no record is in the range", ranges="0=[0,3)")
    plan = world.plan(action="redo", load="load-a")
    assert (plan.rows_in, plan.redoes) == (of({0: (0, 3)}), ("c1",))
    world.first = 1
    world.refused("retention has deleted 0=[0,1)", action="redo", load="load-a")


def test_a_load_leaves_reverted_sources_out_and_says_so(world: World) -> None:
    world.reverted("a")
    world.loads.upload("c")
    proof = world.loads.load("next")
    assert (proof["source_rows"], proof["verified_before"], proof["reverted"]) == (3, 1, 1)


def test_a_run_id_keeps_its_plan(world: World) -> None:
    def create() -> dict[str, Any]:
        return world.plan(ranges="0=[0,1)").to_document()

    first = change_plans.pin(world.loads.ledger, "r", {"action": "replay", "ranges": "0=[0,1)"}, create)
    same = {"action": "replay", "ranges": "0=[0,1)", "load": None}
    assert change_plans.pin(world.loads.ledger, "r", same, create) == first
    with raising(Refused, "run id 'r' has a plan for another change", "0=[0,2)"):
        change_plans.pin(world.loads.ledger, "r", {"action": "replay", "ranges": "0=[0,2)"}, create)


def test_an_object_is_replaced_once_its_newest_version_is_loaded(world: World) -> None:
    world.refused(
        "no other content of it was loaded",
        action="replace",
        object="nyc_taxi/a.csv",
    )
    world.loads.upload("c")
    world.refused(
        "is not loaded and verified yet", "nyc_taxi_load", action="replace", object="nyc_taxi/c.csv"
    )
    world.refused("object is empty", action="replace")
    old = world.source("a")
    world.loads.upload("a", rows=4)
    world.loads.load("beside", objects=["nyc_taxi/a.csv"], load_changed_objects=True)
    plan = world.plan(action="replace", object="s3://source/nyc_taxi/a.csv")
    assert (plan.sources_out, plan.reverts, plan.rows_in) == ((old,), (old,), OffsetRanges())


def test_the_withheld_rows_of_a_corrected_file_come_as_those_of_the_older_one_go(world: World) -> None:
    old = world.source("a")
    world.loads.upload("a", rows=4)
    proof = world.loads.load(
        "corrected", objects=["nyc_taxi/a.csv"], withhold=True, max_quarantined_percent=0
    )
    assert (proof["published"], proof["withheld"]) == (0, 4)
    # Another file's records are none of them.
    world.loads.upload("b", rows=5)
    world.loads.load("another", objects=["nyc_taxi/b.csv"], withhold=True)
    plan = world.plan(action="replace", object="nyc_taxi/a.csv")
    assert (plan.sources_out, plan.reverts) == ((old,), (old,))
    assert (plan.rows_in, plan.rows_out, plan.withheld) == (of({0: (6, 10)}), OffsetRanges(), True)
    # The quarantine has what the topic has lost.
    world.first = 7
    assert world.plan(action="replace", object="nyc_taxi/a.csv").rows_in == of({0: (6, 10)})


def test_an_object_of_another_stream_is_no_ones_to_replace(world: World) -> None:
    for key in ("other/a.csv", "s3://source/other/a.csv", "nyc_taxi/../other/a.csv"):
        world.refused("the stream's objects are those under 'nyc_taxi/'", action="replace", object=key)


def test_a_corrected_file_that_is_uploaded_twice_replaces_the_older_one(world: World) -> None:
    old = world.source("a")
    for run in ("corrected", "again"):
        world.loads.upload("a", rows=4)
        world.loads.load(run, objects=["nyc_taxi/a.csv"], withhold=True)
    plan = world.plan(action="replace", object="nyc_taxi/a.csv")
    assert (plan.sources_out, plan.rows_in) == ((old,), of({0: (6, 10)}))


def test_an_object_that_is_uploaded_again_replaces_nothing(world: World) -> None:
    world.loads.upload("a")
    world.refused("no other content of it was loaded", action="replace", object="nyc_taxi/a.csv")


def test_withheld_rows_come_by_no_other_action_unless_it_says_so(world: World) -> None:
    world.loads.upload("a", rows=4)
    world.loads.load("withheld", objects=["nyc_taxi/a.csv"], withhold=True)
    plan = world.plan(ranges="0=[0,10)")
    assert (plan.rows_in, plan.withheld) == (of({0: (0, 6)}), False)
    world.refused("no record is in the range", "action replace withheld records", ranges="0=[6,10)")
    world.refused("matches (reason 'any'", "records with 'withheld:' by that only", action="retry_quarantine")
    world.refused("no record in", action="retry_quarantine", load="withheld")
    plan = world.plan(action="retry_quarantine", reason="withheld:")
    assert (plan.rows_in, plan.withheld) == (of({0: (6, 10)}), True)


def test_an_object_is_replaced_whose_older_version_the_bucket_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = world.source("a")
    world.loads.upload("a", rows=4)
    world.loads.load("withheld", objects=["nyc_taxi/a.csv"], withhold=True)
    del world.loads.s3.earlier["source", "nyc_taxi/a.csv"]
    assert old != world.source("a")
    plan = world.plan(action="replace", object="nyc_taxi/a.csv")
    assert (plan.sources_out, plan.rows_in.count) == ((old,), 4)
    monkeypatch.setattr(VerifiedSources, "reverted", frozenset({old}))
    parts = ("all of that is reverted", "publish the 4 withheld records")
    world.refused(*parts, action="replace", object="nyc_taxi/a.csv")


def test_an_object_that_replaces_nothing_is_not_withheld(world: World) -> None:
    world.loads.upload("c")
    with raising(Exception, "no other content of it was loaded", "Fix: load it without withhold"):
        world.loads.produce("withheld", objects=["nyc_taxi/c.csv"], withhold=True)


def test_of_copies_of_a_withheld_row_one_comes(world: World) -> None:
    world.loads.upload("a", rows=4)
    world.loads.load("corrected", objects=["nyc_taxi/a.csv"], withhold=True)
    source = world.source("a")
    # A producer that was believed dead sends rows 0 and 1 again.
    world.loads.withhold(source, 2)
    assert world.plan(action="replace", object="nyc_taxi/a.csv").rows_in.count == 4


def test_an_object_whose_newest_version_was_reverted_replaces_nothing(world: World) -> None:
    world.loads.upload("a", rows=4)
    world.loads.load("beside", objects=["nyc_taxi/a.csv"], load_changed_objects=True)
    world.reverted("a")
    world.refused("a change took the rows of its newest", action="replace", object="nyc_taxi/a.csv")


def test_redo_of_a_load_whose_object_was_replaced_is_refused(world: World) -> None:
    old = world.source("a")
    world.loads.upload("a", rows=4)
    world.loads.load("beside", objects=["nyc_taxi/a.csv"], load_changed_objects=True)
    world.reverted("a", old)
    # Also under a newest version that has no rows of its own.
    world.loads.upload("a", rows=4)
    world.refused("another version of s3://source/nyc_taxi/a.csv", "revert", action="redo", load="load-a")


def test_a_replace_that_would_bring_nothing_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.loads.upload("a", rows=4)
    world.loads.load("corrected", objects=["nyc_taxi/a.csv"], withhold=True)
    monkeypatch.setattr(QuarantinedRecords, "one_per_row", lambda *_: OffsetRanges())
    world.refused("older rows would go and none come", action="replace", object="nyc_taxi/a.csv")


def test_an_older_version_that_is_sent_in_part_is_replaced_and_closed(world: World) -> None:
    """Its file may be corrupt, so it is never sent to its end; a row that comes later is not published."""
    old = world.source("a")
    world.loads.upload("a", rows=4)
    world.loads.load("corrected", objects=["nyc_taxi/a.csv"], withhold=True)
    del world.loads.s3.objects["w", f"ledger/nyc_taxi/{produced_key(old)}"]
    plan = world.plan(action="replace", object="nyc_taxi/a.csv")
    assert (plan.sources_out, plan.reverts, plan.closes) == ((old,), (old,), (old,))
    assert plan.rows_in.count == 4
    assert ChangePlan.from_document(plan.to_document()) == plan


def test_a_load_that_was_sent_in_part_is_reverted_and_closed(world: World) -> None:
    old = world.source("a")
    for name in (produced_key(old), "runs/load-a/produced.json"):
        del world.loads.s3.objects["w", f"ledger/nyc_taxi/{name}"]
    plan = world.plan(action="revert", load="load-a")
    assert (plan.sources_out, plan.reverts, plan.closes) == ((old,), (old,), (old,))
    world.refused("is not known", action="redo", load="load-a")


def test_what_a_change_took_out_before_it_was_sent_to_its_end_is_not_sent_on(world: World) -> None:
    old = world.source("a")
    for name in (produced_key(old), "runs/load-a/produced.json"):
        del world.loads.s3.objects["w", f"ledger/nyc_taxi/{name}"]
    world.reverted("a", old)
    end = world.loads.end
    with raising(Exception, "SLU-314", "a change took the rows", "Fix: trigger a new run"):
        world.loads.produce("load-a", objects=["nyc_taxi/a.csv"])
    assert world.loads.end == end


def test_a_source_is_sent_as_it_was_planned_first(world: World) -> None:
    world.loads.upload("a", rows=4)
    world.loads.produce("first", objects=["nyc_taxi/a.csv"], load_changed_objects=True)
    with raising(Exception, "was planned without withhold by run 'first'", "Fix: "):
        world.loads.produce("second", objects=["nyc_taxi/a.csv"], withhold=True)
    world.loads.upload("a", rows=5)
    world.loads.produce("third", objects=["nyc_taxi/a.csv"], withhold=True)
    with raising(Exception, "was planned with withhold by run 'third'", "Fix: "):
        world.loads.produce("fourth", objects=["nyc_taxi/a.csv"])


def test_single_records_are_removed_and_brought_back(world: World) -> None:
    plan = world.plan(action="remove", ranges="0=[1,2),[4,5)")
    assert (plan.action, plan.rows_out, plan.rows_in) == (Action.REMOVE, plan.quarantined_out, OffsetRanges())
    assert plan.rows_out == OffsetRanges.of({0: [(1, 2), (4, 5)]})
    gone = [RemovedRecord(0, 1, world.source("a"), 1), RemovedRecord(0, 4, None, None)]
    world.removed(replace(plan, id="c1"), gone)
    world.refused("0=[4,5)", "is removed already", action="remove", ranges="0=[4,5)")
    world.refused("no record", "0=[1,2),[4,5)", action="redo", ranges="0=[2,3)")
    world.refused(action="redo", ranges="0=[1,2)", load="load-a")
    back = world.plan(action="redo", ranges="0=[0,3)")
    assert (back.rows_in, back.rows_out, back.redoes) == (of({0: (1, 2)}), OffsetRanges(), ())
    assert not back.withheld, "a withheld record would come beside the rows of the older version"


def test_many_records_are_not_removed_singly(world: World) -> None:
    with patch.object(record_changes, "MAX_RECORDS", 3):
        world.refused("4 offsets", "3 at most", "revert", action="remove", ranges="0=[0,4)")
        assert world.plan(action="remove", ranges="0=[0,3)").rows_out.count == 3


def test_what_comes_back_is_removed_no_more(world: World) -> None:
    plan = ChangePlan("c1", Action.REMOVE, TOPIC, rows_out=of({0: (1, 3)}))
    none = ChangeResult.none()
    gone = [RemovedRecord(0, offset, world.source("a"), offset) for offset in (1, 2)]
    made = replace(none, out=of({0: (1, 3)}), records=gone).after(plan, none)
    assert ChangeResult.from_document(json.loads(json.dumps(made.to_document()))) == made
    later = none.after(ChangePlan("c2", Action.REDO, TOPIC, rows_in=of({0: (1, 2)})), made)
    assert (later.single_offsets, later.rows_of(world.source("a"))) == (of({0: (2, 3)}), [2])


def test_records_that_are_removed_are_gone_through_once_for_all_sources() -> None:
    """A load may have thousands of sources, and as many records may be removed."""

    class Counting(list[RemovedRecord]):
        turns = 0

        def __iter__(self) -> Iterator[RemovedRecord]:
            self.turns += 1
            return super().__iter__()

    records = Counting(RemovedRecord(0, n, f"s{n % 3}", n) for n in range(9))
    found = replace(ChangeResult.none(), records=records)
    rows = {f"s{n}": found.rows_of(f"s{n}") for n in range(5)}
    assert rows == {"s0": [0, 3, 6], "s1": [1, 4, 7], "s2": [2, 5, 8], "s3": [], "s4": []}
    assert records.turns == 1


def test_a_copy_of_what_is_removed_or_reverted_does_not_come_by_another_change() -> None:
    none = ChangeResult.none()
    gone = [RemovedRecord(0, 1, "a", 1), RemovedRecord(0, 2, None, None)]
    removal = ChangePlan("c1", Action.REMOVE, TOPIC, rows_out=of({0: (1, 3)}))
    before = replace(none, out=of({0: (1, 3)}), records=gone).after(removal, none)
    revert = ChangePlan("c2", Action.REVERT, TOPIC, reverts=("b",))
    before = replace(none, out=of({0: (5, 6)})).after(revert, before)
    replay = ChangePlan("c3", Action.REPLAY, TOPIC, rows_in=of({0: (0, 9)}))
    assert before.rows_out_of(replay) == {("a", 1)}
    assert before.reverted_sources_out_of(replay) == {"b"}
    redo = ChangePlan("c4", Action.REDO, TOPIC, rows_in=of({0: (1, 2)}), redoes=("c2",))
    assert before.rows_out_of(redo) == set()
    assert before.reverted_sources_out_of(redo) == set()
