"""The newest values of keys, read back from a topic's end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.clients.kafka import compacted
from sluice.clients.kafka.compacted import newest_values
from sluice.config.platform_sections.kafka import Kafka

Record = tuple[bytes, bytes | None]


class Log:
    """The records of partition 0, from offset ``begin`` on; ``read``: ranges that were read."""

    def __init__(self, records: list[Record], begin: int = 0) -> None:
        self.records, self.begin = records, begin
        self.read: list[tuple[int, int]] = []

    def read_range(
        self, _: object, topic: str, starts: Mapping[int, int], ends: Mapping[int, int], seconds: float
    ) -> Iterator[Any]:
        self.read.append((starts[0], ends[0]))
        for key, value in self.records[starts[0] - self.begin : ends[0] - self.begin]:
            yield SimpleNamespace(key=lambda key=key: key, value=lambda value=value: value)


@pytest.fixture
def newest(monkeypatch: pytest.MonkeyPatch) -> Any:
    def ask(log: Log, *keys: bytes) -> dict[bytes, bytes]:
        end = log.begin + len(log.records)
        monkeypatch.setattr(compacted, "read_range", log.read_range)
        monkeypatch.setattr(compacted, "written_offsets", lambda *_: {0: (log.begin, end)})
        monkeypatch.setattr(compacted, "consumer", lambda *_: SimpleNamespace(close=lambda: None))
        return newest_values(Kafka("localhost:1"), "topic", keys, 1.0)

    return ask


def test_the_newest_one_counts_and_no_more_is_read_than_needed(newest: Any) -> None:
    log = Log([(b"a", b"%d" % n) for n in range(1_000)])
    assert newest(log, b"a") == {b"a": b"999"}
    assert log.read == [(500, 1_000)]


def test_it_reads_back_until_each_key_is_found(newest: Any) -> None:
    others: list[Record] = [(b"other", b"x")] * 10_000
    log = Log([(b"b", b"old"), (b"a", b"older"), *others, (b"a", b"new"), (b"b", None)], begin=7)
    assert newest(log, b"a", b"b") == {b"a": b"new"}
    assert log.read == [(9_511, 10_011)], "b was removed"
    log = Log([(b"b", b"old"), (b"a", b"older"), *others, (b"a", b"new")], begin=7)
    assert newest(log, b"a", b"b") == {b"a": b"new", b"b": b"old"}
    assert log.read == [(9_510, 10_010), (4_510, 9_510), (7, 4_510)]


def test_what_is_nowhere_is_left_out(newest: Any) -> None:
    assert newest(Log([]), b"a") == {}
    assert newest(Log([(b"b", b"x")]), b"a") == {}
