"""Documents of batches go when nothing needs them, and what they say of offsets stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.config.sections.maintenance import Maintenance
from sluice.connection_check.rights.s3 import GET, PUT, Places, allows, s3_grants
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from sluice.core.json_record import Document
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.batches import time_of
from sluice.ledger.batch_log import published_key
from sluice.maintenance.expired_batches import (
    ELSEWHERE,
    NEWEST,
    RESTORABLE,
    UNKNOWN_KEY,
    UNREADABLE,
    UNVERIFIED,
    YOUNG,
)
from tests.support.batches import LOCATION, NOON, batch, with_marker, writers_log
from tests.support.maintained import DAY, MaintainedStream, aged, later, markers
from tests.support.memory_s3 import MemoryS3, error
from tests.support.raising import raising


def test_after_ten_times_as_many_batches_as_many_objects_are_left() -> None:
    stream, left = MaintainedStream(), list[int]()
    for day in range(1, 101):
        stream.day(20)
        if day in (10, 100):
            left.append(len(stream.objects()))
    assert len(stream.line) == 2000
    assert left[0] == left[1] < 20
    assert stream.batch_log().without_record(OffsetRanges.of({0: [(0, 20_000)]})).offsets == markers(2000)


def test_one_document_is_left_of_those_of_long_offsets_without_a_record() -> None:
    stream, left = MaintainedStream(), list[int]()
    for day in range(1, 31):
        stream.day(10, in_documents=True)
        if day in (10, 30):
            left.append(len(stream.objects()))
    assert left[0] == left[1]
    assert len(stream.objects("without-record/")) < 100
    assert len(stream.objects("batches/rolled-up/")) == 2, "the newest, and one that may be read now"
    assert stream.batch_log().without_record(OffsetRanges.of({0: [(0, 3000)]})).offsets == markers(300)


def test_what_is_younger_than_the_horizon_stays_and_so_does_the_newest_before_it() -> None:
    stream = aged()
    before = stream.objects("batches/published/")
    horizon = stream.now - 3 * DAY
    result = stream.remove()
    left = [key for key in before if key in stream.objects("batches/published/")]
    assert result["removed"] == len(before) - len(left) > 0
    assert result["kept"][NEWEST] == 1
    listed = [one.batch for one in stream.batch_log().newest(10_000)]
    assert {one.snapshot_id for one in stream.line if one.published >= horizon} < {
        one.snapshot_id for one in listed
    }
    assert stream.remove()["removed"] == 0, "all of it was removed"


def test_of_a_stream_that_stands_still_the_newest_document_stays_for_the_next_writer() -> None:
    stream = aged(batches=40)
    for _ in range(20):
        later(stream, 1)
        stream.note()
    stream.kept = 5
    stream.states = {location: found[-5:] for location, found in stream.states.items()}
    stream.remove()
    left = stream.objects("batches/published/")
    assert left[0].endswith(published_key(stream.line[-10:]))
    assert len(left) == 5, "of the day before the newest state, too"
    # It finds `main` as it was, and a restored one.
    writers_log(stream.s3).note_restore(stream.line[-5:], round(stream.now.timestamp() * 1000), "w2_b")
    assert stream.objects("batches/restored/") == []
    writers_log(stream.s3).note_restore(stream.line[-9:-2], round(stream.now.timestamp() * 1000), "w3_b")
    assert len(stream.objects("batches/restored/")) == 1


def test_nothing_goes_until_it_is_verified() -> None:
    stream = MaintainedStream()
    for _ in range(12):
        stream.publish(40)
        stream.note()
    assert "no reconciliation has verified" in stream.remove()["result"]
    ends = {"0": stream.line[99].ends[0]}
    state = {"table_uuid": "another", "committed_at": NOON * 2, "ends": ends}
    stream.ledger.record_run("reconciled_table", state, stream.now)
    assert "no reconciliation has verified" in stream.remove()["result"]
    stream.ledger.record_run("reconciled_table", {**state, "table_uuid": "u"}, later(stream, 0.001))
    assert stream.remove() == {
        "result": "10 documents of batches before 2026-02-09 02:40 UTC removed; older ones that stay: "
        f"17 ({UNVERIFIED}), 1 ({NEWEST})",
        "removed": 10,
        "kept": {UNVERIFIED: 17, NEWEST: 1},
    }
    assert stream.batch_log().without_record(OffsetRanges.of({0: [(0, 4800)]})).offsets == markers(480)


def test_a_reconciliation_that_stands_still_keeps_what_came_since_and_reads_none_of_it() -> None:
    stream = aged(days=4)
    for _ in range(20):
        stream.publish(40)
        stream.note()
    stream.s3.requests.clear()
    removed = stream.remove()["removed"]
    assert 0 < removed < 16
    assert stream.s3.requests["GET"] < removed + 12
    listed = {one.batch.snapshot_id for one in stream.batch_log().newest(10_000)}
    verified = stream.line[159].published
    assert {one.snapshot_id for one in stream.line if one.published >= verified - DAY} < listed


def test_a_batch_that_a_state_has_to_which_the_catalog_may_be_restored_stays() -> None:
    """Its snapshot names its documents, as that of a table that keeps thousands for a query."""
    stream = aged()
    location = next(iter(stream.states))
    newest = stream.ledger.metadata_times()
    assert next(newest).at == stream.now
    stream.states[list(stream.states)[-1]] += [5, 17]
    del stream.states[location]
    result = stream.remove()
    assert result["kept"][RESTORABLE] == 2
    assert stream.batch_log().recorded([5, 17, 25], time_of(0)).keys() == {5, 17}
    # Also where the last of the offsets was rolled up, and these were not.
    assert stream.batch_log().without_record(OffsetRanges.of({0: [(0, 300)]})).offsets == markers(30)


@pytest.mark.parametrize("days", [0, 2])
def test_records_that_do_not_cover_the_horizon_remove_nothing(days: int) -> None:
    stream = MaintainedStream()
    for _ in range(days):
        stream.day(20)
    stream.publish(20)
    stream.verify()
    assert "do not cover 3 days" in stream.remove()["result"]


def test_a_clock_that_is_ahead_removes_nothing_early() -> None:
    stream = aged(days=5)
    real = stream.now
    # A run by a machine whose clock is far ahead.
    stream.now += 1000 * DAY
    stream.remove()
    stream.now = real
    listed = {one.batch.snapshot_id for one in stream.batch_log().newest(10_000)}
    assert {one.snapshot_id for one in stream.line if one.published >= real - 3 * DAY} < listed
    stream.ledger.record_metadata({}, real + DAY, "ahead")
    assert "from the future" in stream.remove()["result"]


def test_a_document_that_was_written_late_by_s3s_clock_is_young() -> None:
    stream = aged()
    key = stream.objects("batches/published/")[-2]
    stream.s3.modified["lake", key] = stream.now
    assert stream.remove()["kept"][YOUNG] == 1
    assert key in stream.objects()


def test_what_airflows_runs_and_a_restore_need_stays_for_longer() -> None:
    assert "do not cover 30 days" in aged().remove(fewest_days=30)["result"]
    stream = aged()
    stream.maintenance = Maintenance(restore_horizon_days=40, history_days=3)
    assert "do not cover 40 days" in stream.remove()["result"]


def test_what_is_not_known_stays_and_is_counted() -> None:
    stream = aged()
    oldest = stream.objects("batches/published/")[-3:]
    other = oldest[0].rsplit("/", 1)[0] + "/99999999999999999-other.json"
    stream.s3.objects["lake", other] = b"{}"
    stream.s3.objects["lake", oldest[0]] = b'{"batches": [{"snapshot_id": 1}]}'
    document = json.loads(stream.s3.objects["lake", oldest[1]])
    document["batches"][0]["without_record"] = {"address": "s3://lake/raw/trips/data/x.parquet", "count": 1}
    stream.s3.objects["lake", oldest[1]] = json.dumps(document).encode()
    document["batches"][0]["without_record"]["address"] = f"{LOCATION}/without-record/gone.json"
    stream.s3.objects["lake", oldest[2]] = json.dumps(document).encode()
    kept = stream.remove()["kept"]
    assert kept == {NEWEST: 1, UNKNOWN_KEY: 1, UNREADABLE: 2, ELSEWHERE: 1}
    assert {*oldest, other} < set(stream.objects())


def test_a_run_that_ends_between_the_roll_up_and_the_deletion_is_gone_on_with() -> None:
    stream = aged(in_documents=True)
    objects, every = stream.objects(), OffsetRanges.of({0: [(0, 4800)]})
    removed = stream.remove_objects
    for count in (0, 3, 150):
        stream.s3.objects = dict(stream.s3.objects)

        def some(bucket: str, keys: object, left: int = count) -> None:
            for number, key in enumerate(keys):  # type: ignore[arg-type, var-annotated]
                if number == left:
                    raise Unreachable("S3 is away", ErrorCode.S3_UNREACHABLE)
                removed(bucket, [key])

        stream.remove_objects = some  # type: ignore[method-assign]
        with pytest.raises(Unreachable, match="away"):
            stream.remove()
        assert stream.batch_log().without_record(every).offsets == markers(480)
    stream.remove_objects = removed  # type: ignore[method-assign]
    assert stream.remove()["removed"] > 0
    assert len(stream.objects()) < len(objects) / 2
    other = aged(in_documents=True)
    other.remove()
    assert [key for key in stream.objects() if "rolled-up" not in key] == [
        key for key in other.objects() if "rolled-up" not in key
    ]
    named = [one.without_record.address for one in (two.batch for two in stream.batch_log().newest(999))]
    stored = {f"s3://lake/{key}" for key in stream.objects("without-record/")}
    assert stored <= set(named), "none is left that no batch names"
    assert stream.batch_log().without_record(every).offsets == markers(480)


def test_a_role_without_the_right_removes_nothing_and_says_so() -> None:
    stream = aged()
    stream.refuses = Refused("s3://lake/x: AccessDenied", ErrorCode.S3_PERMISSION)
    before = stream.objects("batches/published/")
    result = stream.remove()
    assert "AccessDenied" in result["notes"][0]
    assert stream.objects("batches/published/") == before


class AsMaintenance:
    """The client of role ``maintenance``, with the rights that the role has."""

    def __init__(self, s3: MemoryS3) -> None:
        self._s3 = s3
        self._grants = s3_grants(Places("lake", "w/ledger", "source"))["maintenance"]

    def get_object(self, **given: Any) -> dict[str, Any]:
        self._ask(GET, "GetObject", **given)
        return self._s3.get_object(**given)

    def put_object(self, **given: Any) -> None:
        self._ask(PUT, "PutObject", **given)
        self._s3.put_object(**given)

    def _ask(self, action: str, operation: str, **given: Any) -> None:
        if not allows(self._grants, action, f"{given['Bucket']}/{given['Key']}"):
            raise error("AccessDenied", operation)


def test_another_runs_roll_up_is_not_taken_for_its_own() -> None:
    stream = aged()

    def put() -> object:
        return AsMaintenance(stream.s3)

    def other() -> object:
        key = f"{LOCATION.removeprefix('s3://lake/')}/batches/rolled-up/999999998.json"
        document: Document = {"offsets": "{}", "without_record": {}, "evidence": "", "until": None}
        stream.s3.objects["lake", key] = json.dumps(document).encode()
        return put()

    stream.as_maintenance = other  # type: ignore[method-assign]
    before = stream.objects("batches/published/")
    with raising(Refused, "nothing was deleted", "Fix: "):
        stream.remove()
    assert stream.objects("batches/published/") == before


def test_a_marked_batch_is_as_a_writer_writes_it() -> None:
    assert with_marker(batch(0, 0, 10)).rejected == 0
