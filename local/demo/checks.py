"""The figures of a demo, and its checks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A number and the system that it was read from; None: not counted."""

    name: str
    value: int | None
    read_from: str


@dataclass(frozen=True)
class Check:
    """A condition, and the message, with its numbers, if it does not hold."""

    ok: bool
    message: str


@dataclass(frozen=True)
class DemoResult:
    """The end of a demo. `more`: for the demo's file only."""

    figures: Sequence[Figure]
    checks: Sequence[Check]
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def failures(self) -> list[str]:
        """The messages of the failed checks."""
        return [check.message for check in self.checks if not check.ok]

    def to_json(self) -> dict[str, Any]:
        """By the figures' names, in lower case with underscores."""
        return {one.name.lower().replace(" ", "_"): one.value for one in self.figures} | self.more


def offset_figures(
    records: int, rows: int, quarantined: int, gaps: int, duplicates: int, *, of: str
) -> list[Figure]:
    """The five figures of every demo. `of`: where duplicates were counted."""
    return [
        Figure("topic records", records, "Kafka's begin and end offsets"),
        Figure("lake rows", rows, "the table's branch main, by DuckDB"),
        Figure("quarantined", quarantined, "the quarantine table, by DuckDB"),
        Figure("gaps", gaps, "topic offsets against record offsets in the lake"),
        Figure("duplicates", duplicates, of),
    ]


def gaps_and_duplicates(gaps: int, duplicates: int) -> list[Check]:
    return [
        Check(not gaps, f"{gaps} offsets of the topic are neither in the lake nor in quarantine"),
        Check(not duplicates, f"{duplicates} records are in the lake more than once"),
    ]


def in_lake_or_quarantine(records: int, rows: int, quarantined: int) -> Check:
    return Check(
        rows + quarantined == records,
        f"{records} records came onto the topic, but {rows} are in the lake and {quarantined} in quarantine",
    )


def bucket(objects: int, versions: int, delete_markers: int, s3_calls: int | None) -> DemoResult:
    """The load's objects in the bucket, and its S3 calls (None: not counted)."""
    prefix = "the bucket, under the lake's prefix"
    return DemoResult(
        [
            Figure("objects", objects, prefix),
            Figure("versions", versions, prefix),
            Figure("delete markers", delete_markers, prefix),
            Figure("S3 calls", s3_calls, "MinIO's metrics: all clients, during this load"),
        ],
        [],
    )
