"""One sample: what is asked in which order, what did not answer, and what retention will delete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from sluice.clients.kafka.admin import KafkaAdmin, TopicDescription
from sluice.clients.processes.base import Runtime
from sluice.config.reading.toml import ConfigError
from sluice.config.sections.consumer import Budget, Consumer
from sluice.config.sections.feed import Feed
from sluice.config.sections.supervision import Supervision
from sluice.config.sections.topic import Topic
from sluice.config.stream import StreamSpec
from sluice.core.errors import ClientError, Missing, Refused, Unreachable
from sluice.core.processes.status import ProcessState, ProcessStatus
from sluice.core.tables.position import Position
from sluice.supervision.observer.sampler import Sampler
from tests.support.steps import new_tables

NOW = 1_000_000.0
HOUR = 3600
SPEC = StreamSpec(
    name="x",
    schema="schema.avsc",
    table="raw.x",
    topic=Topic("x-topic", 2),
    consumer=Consumer(),
    budget=Budget(1, 1),
    supervision=Supervision(retention_margin_seconds=6 * HOUR),
)
RUNNING = ProcessStatus("stream-x", ProcessState.RUNNING, 42, 900.0)
POSITION = Position(7, NOW - 5, 910.0, {0: 0, 1: 0}, {0: 60, 1: 10})


class Systems:
    """Kafka, the lake and the runtime at once. ``ages``: partition -> how old its records are, in hours, from
    the begin on; ``errors``: the question that fails, and how."""

    def __init__(self, ages: dict[int, list[float]], position: Position | None = POSITION) -> None:
        self.ages = ages
        self.position_ = position
        self.retention: int | None = 24 * HOUR * 1000
        self.errors: dict[str, Exception] = {}
        self.asked: list[str] = []
        self.stable: dict[int, int] = {}

    def _ask(self, name: str, answer: Any) -> Any:
        self.asked.append(name)
        if name in self.errors:
            raise self.errors[name]
        return answer

    def describe(self, topic: str) -> TopicDescription:
        assert topic == "x-topic"
        return self._ask("describe", TopicDescription("T", len(self.ages)))

    def begins(self, topic: str, partitions: int) -> dict[int, int]:
        return self._ask("begins", dict.fromkeys(range(partitions), 0))

    def ends(self, topic: str, partitions: int) -> dict[int, int]:
        return self._ask("ends", {p: len(self.ages[p]) for p in range(partitions)})

    def retention_ms(self, topic: str) -> int | None:
        return self._ask("retention_ms", self.retention)

    def first_after(self, topic: str, at_ms: int, ends: Mapping[int, int]) -> dict[int, int]:
        hours = (NOW - at_ms / 1000) / HOUR
        found = {p: next((n for n, age in enumerate(self.ages[p]) if age <= hours), ends[p]) for p in ends}
        return self._ask("first_after", found)

    def last_stable(self, topic: str, partitions: int) -> dict[int, int]:
        return self._ask("last_stable", self.stable)

    def open_transactions(self, topic: str, partitions: list[int]) -> dict[int, str]:
        return self._ask("open_transactions", dict.fromkeys(partitions, "producer 7"))

    def position(self, table: str, quarantine: str) -> Position | None:
        assert (table, quarantine) == ("raw.x", "raw.x_quarantine")
        return self._ask("position", self.position_)

    def status(self, program: str) -> ProcessStatus:
        assert program == "stream-x"
        return self._ask("status", RUNNING)

    def sampler(self, spec: StreamSpec = SPEC) -> Sampler:
        return Sampler(
            cast("KafkaAdmin", self), lambda: new_tables(self), cast("Runtime", self), spec, "consumer"
        )


ALL = ["status", "describe", "begins", "position", "ends"]


def test_where_nothing_waits_five_questions_are_asked() -> None:
    systems = Systems({0: [1.0] * 60, 1: [1.0] * 10})
    sample = systems.sampler().observe(NOW)
    assert (sample.at, sample.process, sample.published) == (NOW, RUNNING, POSITION)
    assert (sample.topic_id, sample.begins, sample.ends) == ("T", {0: 0, 1: 0}, {0: 60, 1: 10})
    assert (sample.expiring, sample.expires_in, sample.errors) == (None, None, {})
    # The begins before the table, the ends after it.
    assert systems.asked == ALL


def test_where_records_wait_two_more_tell_that_they_are_kept() -> None:
    systems = Systems({0: [17.9] * 100, 1: [1.0] * 10})
    sample = systems.sampler().observe(NOW)
    assert sample.unread() == {0: 40}
    assert (sample.expiring, sample.expires_in, sample.errors) == ({0: 0, 1: 0}, None, {})
    assert systems.asked == [*ALL, "retention_ms", "first_after"]


def test_unread_records_that_go_within_the_risk_are_counted_and_the_first_one_is_dated() -> None:
    # Kept 24 h. Offsets 0 to 79 are 20 h old and go in 4 h; 60 of them are published.
    systems = Systems({0: [20.0] * 80 + [1.0] * 20, 1: [23.0] * 10})
    sample = systems.sampler().observe(NOW)
    assert sample.expiring == {0: 80, 1: 10}
    assert sample.expires_in is not None
    assert 4 * HOUR <= sample.expires_in <= 4 * HOUR + 6 * HOUR / 32
    assert systems.asked == [*ALL, "retention_ms", *["first_after"] * 6]


def test_what_is_overdue_goes_at_once() -> None:
    sample = Systems({0: [30.0] * 100}, replace(POSITION, ends={0: 60})).sampler().observe(NOW)
    assert sample.expires_in == 6 * HOUR / 32


def test_published_records_may_go() -> None:
    sample = Systems({0: [23.0] * 60 + [1.0] * 40, 1: []}).sampler().observe(NOW)
    assert (sample.expiring, sample.expires_in) == ({0: 60, 1: 0}, None)


def test_of_a_short_retention_half_is_a_risk() -> None:
    systems = Systems({0: [0.9] * 100, 1: []})
    systems.retention = 2 * HOUR * 1000
    assert systems.sampler().observe(NOW).expires_in is None
    systems.ages[0] = [1.1] * 100
    assert systems.sampler().observe(NOW).expires_in == pytest.approx(0.9 * HOUR, abs=HOUR / 32)


def test_a_topic_that_keeps_everything_has_no_risk() -> None:
    systems = Systems({0: [9000.0] * 100, 1: []})
    systems.retention = None
    sample = systems.sampler().observe(NOW)
    assert (sample.expiring, sample.errors) == (None, {})
    assert systems.asked == [*ALL, "retention_ms"]


def test_before_the_first_snapshot_all_of_the_topic_waits() -> None:
    sample = Systems({0: [1.0] * 5}, position=None).sampler().observe(NOW)
    assert (sample.published, sample.unread(), sample.errors) == (None, {0: 5}, {})


@pytest.mark.parametrize("kind", [Unreachable, Missing, Refused])
@pytest.mark.parametrize(
    ("method", "system", "asked"),
    [
        ("status", "process", ALL),
        ("describe", "kafka", ["status", "describe", "position"]),
        ("begins", "kafka", ["status", "describe", "begins", "position"]),
        ("position", "lake", ALL),
        ("ends", "kafka", ALL),
        ("retention_ms", "kafka", [*ALL, "retention_ms"]),
        ("first_after", "kafka", [*ALL, "retention_ms", "first_after"]),
    ],
)
def test_what_does_not_answer_is_trouble_and_is_not_asked_on(
    method: str, system: str, asked: list[str], kind: type[ClientError]
) -> None:
    systems = Systems({0: [1.0] * 100, 1: []})
    systems.errors[method] = kind("away")
    sample = systems.sampler().observe(NOW)
    assert sample.errors == {system: "away"}
    assert systems.asked == asked
    assert (sample.process is None) == (system == "process")
    assert (sample.published is None) == (system == "lake")
    assert (sample.ends is None) == (method in ("describe", "begins", "ends"))


def test_all_that_is_away_is_named() -> None:
    systems = Systems({0: [1.0]})
    systems.errors = {name: Unreachable(f"no {name}") for name in ALL}
    assert systems.sampler().observe(NOW).errors == {
        "process": "no status",
        "kafka": "no describe",
        "lake": "no position",
    }


def test_a_wrong_declaration_is_nobodys_trouble() -> None:
    systems = Systems({0: [1.0]})
    systems.errors["position"] = ConfigError("x")
    with pytest.raises(ConfigError):
        systems.sampler().observe(NOW)


FED = replace(SPEC, feed=Feed("https://feed.test/", "a", "id", "e:read"))
OTHERS = replace(SPEC, topic=Topic("x-topic", managed=False))


def waiting(stable: dict[int, int]) -> Systems:
    """Partition 0 has unread records from 60 on, to 80; partition 1 has none."""
    systems = Systems({0: [1.0] * 80, 1: [1.0] * 10})
    systems.stable = stable
    return systems


def test_a_topic_of_others_is_asked_whose_transaction_holds_back_unread_records() -> None:
    systems = waiting({0: 60, 1: 10})
    found = systems.sampler(OTHERS).observe(NOW)
    assert (found.stable, found.transactions, found.errors) == ({0: 60, 1: 10}, {0: "producer 7"}, {})
    # The records before it may be read.
    systems = waiting({0: 61, 1: 10})
    found = systems.sampler(OTHERS).observe(NOW)
    assert (found.transactions, "open_transactions" in systems.asked) == ({}, False)
    # A topic of the stream's own gets none, unless a feed's producer sends to it.
    systems = waiting({0: 60, 1: 10})
    assert systems.sampler().observe(NOW).stable is None
    assert "last_stable" not in systems.asked
    found = waiting({0: 60, 1: 10}).sampler(FED).observe(NOW)
    assert (found.stable, found.waits_for_transaction(0)) == ({0: 60, 1: 10}, True)


def test_who_may_not_see_producers_sees_that_there_is_a_transaction() -> None:
    systems = waiting({0: 60, 1: 10})
    systems.errors["open_transactions"] = Refused("no right")
    found = systems.sampler(OTHERS).observe(NOW)
    assert (found.waits_for_transaction(0), found.transactions, found.errors) == (True, {}, {})
    # A feed's own producer is the first to be asked.
    own = systems.sampler(FED).observe(NOW).transactions
    assert own.keys() == {0}
    assert "own producer" in own[0]
    systems.errors = {"last_stable": Unreachable("no answer")}
    assert systems.sampler(OTHERS).observe(NOW).errors == {"kafka": "no answer"}
