"""What a topic of others is like, and why a stream cannot read one."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.offsets.topic_facts import TopicFacts

CONFIG: dict[str, str | None] = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": "1048588",
}
LARGEST = 64 << 20


def facts(**config: str) -> TopicFacts:
    named = {name.replace("_", "."): value for name, value in config.items()}
    return TopicFacts.of(3, CONFIG | named)


def test_a_usual_topic_has_nothing_to_be_said() -> None:
    found = facts()
    assert found == TopicFacts(3, "delete", 604_800_000, None, "LogAppendTime", 1_048_588)
    assert found.problems({0, 1, 2}, LARGEST, ["hourly"]) == []
    assert found.remarks(margin_seconds=21_600) == []
    # As a broker of defaults describes it.
    assert TopicFacts.of(3, {}) == TopicFacts(3, "delete", None, None, "CreateTime", 1_048_588)


@pytest.mark.parametrize(
    ("config", "known", "windowed", "said"),
    [
        ({}, {0, 3}, [], ["3 partitions", "partition 3", "recreated"]),
        ({"max_message_bytes": str(LARGEST + 1)}, {0}, [], [str(LARGEST + 1), "max_batch_mb", "65 or more"]),
        (
            {"message_timestamp_type": "CreateTime"},
            {0},
            ["hourly"],
            ["CreateTime", "hourly", "LogAppendTime"],
        ),
    ],
)
def test_what_a_stream_cannot_read(
    config: Any, known: set[int], windowed: list[str], said: list[str]
) -> None:
    (problem,) = facts(**config).problems(known, LARGEST, windowed)
    assert [datum for datum in (*said, "Fix: ") if datum not in problem] == []


def test_a_batch_as_large_as_what_is_read_is_read() -> None:
    assert facts(max_message_bytes=str(LARGEST)).problems((), LARGEST) == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"cleanup_policy": "compact"}, "compacted away"),
        ({"cleanup_policy": "compact,delete"}, "compacted away"),
        ({"retention_ms": "3600000"}, "1 hours"),
        ({"retention_bytes": "1000"}, "retention.bytes is 1000"),
        ({"message_timestamp_type": "CreateTime"}, "CreateTime"),
    ],
)
def test_what_a_person_should_know(config: Any, said: str) -> None:
    (remark,) = facts(**config).remarks(margin_seconds=21_600)
    assert said in remark


def test_a_topic_that_is_only_compacted_deletes_nothing_by_age_or_size() -> None:
    found = facts(cleanup_policy="compact", retention_ms="1", retention_bytes="1")
    assert (found.retention_ms, found.retention_bytes, found.is_compacted) == (None, None, True)
