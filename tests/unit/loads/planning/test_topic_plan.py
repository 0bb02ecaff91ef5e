"""Loads of a topic of others: which offsets each has, what it verifies, and what that costs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.clients.lake.reading import files
from sluice.clients.s3.objects import Entry
from sluice.config.platform_sections.catalog import Catalog
from sluice.config.platform_sections.lake import Lake as LakeSection
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.ledger.keys import run_key
from sluice.loads.announce import announcement, partition_key
from sluice.loads.known import topic_loads
from sluice.loads.sending import produced
from sluice.loads.written.audit import AuditResult, LoadAudit
from tests.support import lake as lakes
from tests.support.others import NAME, NOON, OthersStream, at
from tests.support.raising import raising
from tests.support.verification import NotVerifiedError


@pytest.fixture
def stream(tmp_path: Path) -> OthersStream:
    return OthersStream(tmp_path)


def test_a_load_begins_where_the_last_verified_one_ended(stream: OthersStream) -> None:
    stream.kafka.send(0, 1, 2, 3)
    stream.publish()
    assert stream.plan("one") == ({0: 0}, {0: 3})
    stream.kafka.send(0, 4, 5)
    # A second attempt has the same offsets.
    assert stream.plan("one") == ({0: 0}, {0: 3})
    assert stream.verify("one")["ranges"] == {"0": [[0, 3]]}
    # One that was planned and not verified counts for nothing.
    assert stream.plan("two") == ({0: 3}, {0: 5})
    stream.kafka.send(0, 6)
    assert stream.plan("three") == ({0: 3}, {0: 6})
    stream.publish()
    assert stream.verify("three")["source_rows"] == 3
    assert stream.plan("four") == ({0: 6}, {0: 6})
    assert stream.verify("four")["topic_records"] == 0


def test_without_a_plan_the_task_is_named_that_a_topics_load_has(stream: OthersStream) -> None:
    stream.kafka.send(0, 1)
    stream.publish()
    steps: list[Callable[[], object]] = [
        lambda: stream.verify("never"),
        lambda: audited(stream, "never"),
        lambda: announcement(stream.lake, stream.spec, stream.ledger, "never"),
    ]
    for step in steps:
        with raising(Missing, "/runs/never/", "Fix: clear the plan task"):
            step()


def test_what_a_proof_claims_of_records_of_others(tmp_path: Path) -> None:
    stream = OthersStream(tmp_path, starts={0: 2})
    stream.kafka.send(0, 1, 2, 3, 4)
    stream.publish()
    stream.plan("r")
    proof = stream.verify("r")
    (source,) = proof["sources"]
    assert (source["topic"], source["start_offsets"], source["end_offsets"]) == (NAME, {"0": 2}, {"0": 4})
    assert source["stream_start"] == {"0": 2}
    assert (source["rows"], source["published"], proof["status"]) == (2, 2, "passed")
    assert "each offset" in proof["meaning"]
    assert "before the stream's start are not claimed" in proof["meaning"]
    assert partition_key(stream.ledger.require(run_key("r", "plan"), "plan")) is None


def test_an_offset_that_is_nowhere_fails_the_load_and_the_next_has_it_again(stream: OthersStream) -> None:
    stream.kafka.send(0, 1, 2, 3)
    stream.publish(without={0: [1]})
    stream.plan("r")
    with raising(NotVerifiedError, "1 gaps", "1 missing"):
        stream.verify("r")
    assert stream.plan("next") == ({0: 0}, {0: 3})


def test_an_offset_that_is_there_twice_fails_the_load(stream: OthersStream) -> None:
    stream.kafka.send(0, 1, 2, 3)
    stream.publish()
    stream.plan("r")
    lakes.append(stream.lake, [(0, 2)], source=None)
    with raising(NotVerifiedError, "duplicates", "1 more than once"):
        stream.verify("r")


def test_a_load_up_to_a_time(stream: OthersStream) -> None:
    stream.kafka.send(0, 1, 2, 3, 4)
    stream.publish()
    assert stream.plan("r", until_time=at(3).isoformat()) == ({0: 0}, {0: 2})
    stream.verify("r")
    with raising(Refused, at(1).isoformat(), "{0: 0}", "{0: 2}"):
        stream.plan("before", until_time=at(1).isoformat())
    with raising(Refused, "2999-01-01", "not over"):
        stream.plan("later", until_time="2999-01-01T00:00:00+00:00")
    # The files of the later ones were there before it was planned.
    assert stream.plan("next") == ({0: 2}, {0: 4})
    assert stream.verify("next")["published"] == 2


def test_a_partition_that_is_added_begins_at_its_first_offset(tmp_path: Path) -> None:
    stream = OthersStream(tmp_path, starts={0: 2})
    stream.kafka.send(0, 1, 2, 3)
    stream.publish()
    stream.plan("one")
    stream.verify("one")
    stream.kafka.send(1, 4, 5)
    stream.publish()
    assert stream.plan("two") == ({0: 3, 1: 0}, {0: 3, 1: 2})
    assert stream.verify("two")["ranges"] == {"1": [[0, 2]]}


def test_intervals_that_meet_share_their_bound(stream: OthersStream) -> None:
    stream.kafka.send(0, 10, 50, 70, 130)
    stream.publish()
    first, second = (at(0), at(60)), (at(60), at(120))
    assert stream.plan("second", second) == ({0: 2}, {0: 3})
    # It came later than its time says, and after the bound was first asked for.
    stream.kafka.send(0, 40, 80)
    stream.publish()
    assert stream.plan("first", first) == ({0: 0}, {0: 2})
    assert stream.plan("third", (at(120), at(180))) == ({0: 3}, {0: 6})
    for run in ("first", "second", "third"):
        stream.verify(run)
    plan = stream.ledger.require(run_key("second", "plan"), "plan")
    assert partition_key(plan) == "2026-06-01T13:00:00"
    # Loads without an interval have a chain of their own.
    assert stream.plan("all") == ({0: 0}, {0: 6})


def test_an_interval_is_over_before_it_is_planned(stream: OthersStream) -> None:
    later = at(60 * 24 * 365 * 900)
    with raising(Refused, later.isoformat(), "not over"):
        stream.plan("r", (at(0), later))
    assert stream.ledger.get(run_key("r", "plan")) is None


@pytest.mark.parametrize("is_kept", [True, False], ids=["record before it kept", "record before it deleted"])
def test_an_interval_that_reaches_back_behind_the_stream_is_refused(tmp_path: Path, is_kept: bool) -> None:
    stream = OthersStream(tmp_path, starts={0: 2})
    stream.kafka.send(0, 10, 50, 70, 130)
    stream.kafka.first = {0: 0 if is_kept else 2}
    stream.publish()
    with raising(Refused, "partition 0", "offset 2"):
        stream.plan("r", (at(0), at(60)))
    # The record before its start is of the interval before it, if that is known.
    if is_kept:
        assert stream.plan("complete", (at(60), at(120))) == ({0: 2}, {0: 3})
    else:
        with raising(Refused, "partition 0", "offset 2"):
            stream.plan("unknown", (at(60), at(120)))
    assert stream.plan("after", (at(120), at(180))) == ({0: 3}, {0: 4})


def _known_since(stream: OthersStream, minutes: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load has known the stream since then, so that intervals after it reach behind no start."""
    monkeypatch.setattr(topic_loads, "now", lambda: at(minutes).isoformat())
    stream.plan("before")
    monkeypatch.undo()


def _hours(stream: OthersStream, count: int) -> list[int | str]:
    """The records of each hour's proof, or where its plan is refused."""
    found: list[int | str] = []
    for hour in range(count):
        try:
            stream.plan(f"hour-{hour}", (at(60 * hour), at(60 * hour + 60)))
            found.append(stream.verify(f"hour-{hour}")["topic_records"])
        except Refused as error:
            found.append(str(error).split(",")[0])
    return found


def test_hours_that_retention_deleted_are_not_called_complete(
    stream: OthersStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.kafka.send(0, 10, 20, 50, 70, 80, 130, 190)
    stream.publish()
    _known_since(stream, -600, monkeypatch)
    stream.kafka.first = {0: 6}
    refused = [
        f"time {at(60 * hour).isoformat()}: topic {NAME!r} begins at offset 6 of partition 0"
        for hour in range(4)
    ]
    assert _hours(stream, 5) == [*refused, 0]
    # Nothing of what is not known was pinned.
    stream.kafka.first = {}
    assert _hours(stream, 4) == [3, 2, 1, 1]


@pytest.mark.parametrize(
    ("configs", "is_known"),
    [
        ({"retention.ms": str(10**15), "retention.bytes": "-1"}, True),
        ({"retention.ms": "3600000", "retention.bytes": "-1"}, False),
        ({"retention.ms": str(10**15), "retention.bytes": "1000"}, False),
        # Something else deleted them.
        ({"retention.ms": "-1"}, False),
    ],
)
def test_an_hour_without_records_at_the_begin_of_a_topic(
    stream: OthersStream,
    monkeypatch: pytest.MonkeyPatch,
    configs: dict[str, str | None],
    is_known: bool,
) -> None:
    stream.kafka.send(0, -300, 150)
    stream.publish()
    _known_since(stream, -600, monkeypatch)
    stream.kafka.first, stream.kafka.configs = {0: 1}, configs
    assert _hours(stream, 3)[2] == (
        1 if is_known else f"time {at(120).isoformat()}: topic {NAME!r} begins at offset 1 of partition 0"
    )


@pytest.mark.parametrize("starts", [{0: 0}, {0: 1}], ids=["read", "before the stream's start"])
def test_a_record_whose_time_is_yet_to_come_makes_no_later_hour_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: dict[int, int]
) -> None:
    stream = OthersStream(tmp_path, starts=starts)
    stream.kafka.send(0, 60 * 24 * 365 * 80, 20, 50, 70, 80, 130, 190)
    stream.publish()
    _known_since(stream, -600, monkeypatch)
    assert [str(one).partition(":")[0] for one in _hours(stream, 2)] == [
        f"time {at(60 * hour).isoformat()[:13]}" for hour in range(2)
    ]
    with raising(Refused, "offset 0", "2106-05-13", "LogAppendTime"):
        stream.plan("r", (at(60), at(120)))


def test_bounds_that_crossed_are_no_recreated_topic(
    stream: OthersStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.kafka.send(0, 10, 70, 200)
    stream.publish()
    _known_since(stream, -600, monkeypatch)
    assert stream.plan("second", (at(60), at(120))) == ({0: 1}, {0: 2})
    # Compaction removed what the bound was.
    stream.kafka.times[0] = [-500, -400, 200]
    with raising(Refused, "{0: (2, 1)}", "without an interval"):
        stream.plan("first", (at(0), at(60)))


def test_a_load_reads_the_files_since_the_last_one_only(
    stream: OthersStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many batches and loads there were before."""
    planned: list[int] = []
    found = files.committed_since

    def counted(*args: object, **kwargs: object) -> object:
        tasks = found(*args, **kwargs)  # type: ignore[arg-type]
        planned.append(len(tasks))
        return tasks

    monkeypatch.setattr(files, "committed_since", counted)
    for number in range(30):
        stream.kafka.send(0, number)
        stream.publish()
        interval = (at(number), at(number + 0.5))
        stream.plan(f"interval {number}", interval)
        stream.verify(f"interval {number}")
        stream.plan(f"load {number}")
        stream.verify(f"load {number}")
    # The newest files of table and quarantine, of which the load before had the first.
    assert max(planned[8:]) <= 3


def test_what_the_other_steps_need_is_there(stream: OthersStream) -> None:
    stream.kafka.send(0, 1, 2)
    stream.publish()
    stream.plan("one")
    baseline = stream.ledger.require(run_key("one", "baseline"), "plan")
    assert (baseline["main"], baseline["at"][:4]) == ({}, "1970")
    sent = produced.of_run(stream.ledger, "one")
    assert produced.offsets_of_all(sent).count == 2
    assert produced.end_offsets(sent) == {0: 2}
    stream.verify("one")
    stream.kafka.send(0, 3)
    stream.publish()
    stream.plan("two")
    # What was written until the load before is not this one's.
    assert stream.ledger.require(run_key("two", "baseline"), "plan")["at"][:4] != "1970"


def test_a_recreated_topic_has_no_load(stream: OthersStream) -> None:
    stream.kafka.send(0, 1)
    stream.publish()
    stream.kafka.id = "t2"
    with raising(Refused, NAME, "t2", "t1"):
        stream.plan("r")


def test_a_table_without_a_position_is_waited_for(stream: OthersStream, tmp_path: Path) -> None:
    stream.lake = lakes.make(tmp_path / "new")
    with raising(Unreachable, "raw.nyc_taxi"):
        stream.plan("r")


def test_a_restored_table_is_verified_from_where_it_ends(stream: OthersStream) -> None:
    stream.kafka.send(0, 1, 2)
    stream.publish()
    stream.plan("one")
    stream.verify("one")
    location = stream.lake.location("raw.nyc_taxi")
    assert location is not None
    stream.kafka.send(0, 3)
    stream.publish()
    stream.plan("two")
    stream.verify("two")
    lakes.restore_catalog(stream.lake, {"raw.nyc_taxi": location})
    assert stream.plan("three") == ({0: 2}, {0: 3})


def audited(stream: OthersStream, run: str) -> AuditResult:
    def entries(uri: str) -> list[Entry]:
        size = Path(uri.removeprefix("file://")).stat().st_size
        return [Entry("k", True, False, "e", size, NOON)]

    table, declared = stream.spec.table, LakeSection("s3://w", "s3://l", Catalog("rest", "https://c"))
    return LoadAudit(
        stream.lake, stream.spec, stream.ledger, run, lambda: stream.batch_log(table), entries, declared
    ).check()


def test_the_audit_of_a_load_is_of_the_batches_that_published_its_records(stream: OthersStream) -> None:
    """They were published before the load began, whose baseline is from before them."""
    for number in range(3):
        stream.kafka.send(0, number)
        stream.publish()
    stream.plan("one")
    stream.verify("one")
    first = audited(stream, "one")
    assert (first.costs.batches, first.costs.unknown.count, first.problems()) == (3, 0, [])
    for number in range(2):
        stream.kafka.send(0, 3 + number)
        stream.publish()
    stream.plan("two")
    stream.verify("two")
    second = audited(stream, "two")
    # Clocks may differ by minutes, so the batches are found by their offsets, not by their times.
    assert (second.costs.batches, second.costs.unknown.count, second.problems()) == (2, 0, [])
    data = [uri for check in second.checked if (uri := check.uri).endswith(".parquet")]
    assert len(data) == 2
