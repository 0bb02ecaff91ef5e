"""Offsets without a record: no gaps if the consumer recorded them and the topic delivers none there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.clients.kafka import reader
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.without_record import WithoutRecord
from sluice.ledger import keys
from sluice.ledger.batch_log import FOLDER
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.steps import ledger, sent
from tests.support.verification import NotVerifiedError, verify

SOURCE = "a" * 16
SAID = WithoutRecord(
    OffsetRanges.of({0: [(7, 8)]}), OffsetRanges.of({0: [(8, 9)]}), OffsetRanges.of({0: [(9, 10)]}), "compact"
)


class Load:
    """Offsets [0, 10) of which rows are at the first 7; ``delivered``: where the topic delivers a record;
    ``empty``: those of them without a value."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lake, self.s3 = lakes.make(folder), MemoryS3()
        self.rows, self.first, self.end, self.topic_id = 7, 0, 10, "t1"
        self.delivered = OffsetRanges.of({0: [(0, 7)]})
        self.empty = OffsetRanges()
        self.asked: list[OffsetRanges] = []
        self.ledger = ledger("nyc_taxi", self.s3)
        self.platform = SimpleNamespace(kafka=Kafka("k:9092"))
        self.kafka = SimpleNamespace(
            describe=lambda topic: SimpleNamespace(id=self.topic_id),
            begins=lambda topic: {0: self.first},
            ends=lambda topic: {0: self.end},
        )
        source = {"bucket": "source", "key": "k.csv", "version_id": "v", "etag": "e", "size": 1}
        sent(self.ledger, {"source_id": SOURCE, **source}, {"0": [0, 10]})
        monkeypatch.setattr(reader, "delivered_among", self.delivered_among)

    def delivered_among(
        self, kafka: Kafka, topic: str, offsets: OffsetRanges, tombstones: OffsetRanges
    ) -> OffsetRanges:
        self.asked.append(offsets)
        return offsets.intersect(self.delivered).minus(self.empty.intersect(tombstones))

    def bucket(self, name: str) -> Load:
        return self

    def data_rows(self, version: Any, form: Any) -> int:
        return self.rows

    def batch_log(self, table: str) -> BatchLog:
        return BatchLog(self.lake.table(table), Ledger(self.s3.as_client(), "s3://w/nyc_taxi", FOLDER))

    def batch(self, rows: int, said: WithoutRecord = SAID) -> None:
        summary = lakes.summary("batch", 1, {0: 10}, ranges={0: (0, 10)}, more={"topic-id": "t1"})
        lakes.append(self.lake, [(0, offset) for offset in range(rows)], summary | said.properties())

    def validate(self) -> dict[str, Any]:
        return verify(self, "nyc_taxi", self.ledger, 50.0)


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    return Load(tmp_path, monkeypatch)


def test_they_are_no_gaps_and_the_proof_counts_them(load: Load) -> None:
    load.batch(7)
    found = load.validate()
    assert (found["status"], found["published"], found["topic_records"], found["gaps"]) == ("passed", 7, 7, 0)
    assert load.asked == [SAID.offsets]
    proof = load.ledger.require(keys.run_key("r", "proof"), "validate")
    assert proof["ranges"] == {"0": [[0, 10]]}, "what was sent"
    assert proof["without_record"] == {
        "control": 1, "aborted": 1, "absent": 1, "evidence": "compact", "deleted_since": 0,
    }  # fmt: skip


def test_a_topic_without_gaps_is_not_asked(load: Load) -> None:
    load.batch(10, WithoutRecord())
    load.rows = 10
    assert load.validate()["without_record"]["control"] == 0
    assert not load.asked


def test_a_record_that_the_consumer_recorded_as_none_is_red(load: Load) -> None:
    """The consumer counted it, and neither table has it: only the second client sees the loss."""
    load.delivered = OffsetRanges.of({0: [(0, 8)]})
    load.batch(7)
    said = "recorded 1 offsets as without a record", "a committed one (0=[7,8))", "nyc_taxi_change"
    with raising(NotVerifiedError, "1 gaps (0=[7,8))", *said):
        load.validate()
    assert load.ledger.get(keys.run_key("r", "proof")) is None


def test_only_recorded_offsets_are_explained(load: Load) -> None:
    load.batch(6)
    load.delivered = OffsetRanges.of({0: [(0, 6)]})
    with raising(NotVerifiedError, "1 gaps (0=[6,7))", "1 missing"):
        load.validate()


def test_a_skipped_record_is_no_gap_if_the_topic_has_no_value_there(load: Load) -> None:
    tombstones = OffsetRanges.of({0: [(7, 10)]})
    load.delivered, load.empty = OffsetRanges.of({0: [(0, 10)]}), OffsetRanges.of({0: [(7, 9)]})
    load.batch(7, WithoutRecord(skipped=tombstones))
    with raising(NotVerifiedError, "1 gaps (0=[9,10))", "a committed one (0=[9,10))"):
        load.validate()
    load.empty = tombstones
    assert load.validate()["without_record"]["skipped"] == 3


def test_what_retention_deleted_cannot_be_asked_and_is_said(load: Load) -> None:
    load.first = 9
    load.batch(7)
    assert load.validate()["without_record"]["deleted_since"] == 2
    assert load.asked == [OffsetRanges.of({0: [(9, 10)]})]


@pytest.mark.parametrize(
    ("topic", "text"),
    [({"topic_id": "t2"}, "was recreated: its id is t2"), ({"end": 9}, r"ends before 0=\[9,10\)")],
    ids=["recreated", "truncated"],
)
def test_another_topic_confirms_nothing(load: Load, topic: dict[str, Any], text: str) -> None:
    load.batch(7)
    load.__dict__ |= topic
    with pytest.raises(Refused, match=f"3 offsets are in neither table.*{text}") as error:
        load.validate()
    assert error.value.code is ErrorCode.OFFSETS_NOT_THERE


def test_a_topic_that_does_not_answer_is_no_confirmation(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_answer(*given: Any) -> OffsetRanges:
        raise Unreachable("Kafka does not answer", ErrorCode.KAFKA_UNREACHABLE)

    load.batch(7)
    monkeypatch.setattr(reader, "delivered_among", no_answer)
    with pytest.raises(Unreachable, match="does not answer"):
        load.validate()
