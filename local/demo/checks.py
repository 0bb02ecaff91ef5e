"""The figures of a demo, and what must hold at its end. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One number, by its name, and the system that it was read from. `value`: None if it was not counted."""

    name: str
    value: int | None
    read_from: str


@dataclass(frozen=True)
class Check:
    """What must hold, and the message, with its numbers, if it does not."""

    ok: bool
    message: str


@dataclass(frozen=True)
class DemoResult:
    """The end of a demo. `more`: for the demo's file alone."""

    figures: Sequence[Figure]
    checks: Sequence[Check]
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def failures(self) -> list[str]:
        """The messages of the checks that do not hold; empty if the demo is green."""
        return [check.message for check in self.checks if not check.ok]

    def to_json(self) -> dict[str, Any]:
        """By the figures' names, in lower case with underscores."""
        return {one.name.lower().replace(" ", "_"): one.value for one in self.figures} | self.more


def gaps_and_duplicates(gaps: int, duplicates: int) -> list[Check]:
    return [
        Check(not gaps, f"{gaps} offsets of the topic are neither in the lake nor in quarantine"),
        Check(not duplicates, f"{duplicates} records are in the lake more than once"),
    ]


def in_lake_or_quarantine(records: int, rows: int, quarantined: int) -> Check:
    """Every record of the topic is in one of both."""
    return Check(
        rows + quarantined == records,
        f"{records} records came onto the topic, but {rows} are in the lake and {quarantined} in quarantine",
    )


def bucket(objects: int, versions: int, delete_markers: int, s3_calls: int | None) -> DemoResult:
    """What the load left in the bucket, and its S3 calls (None: not counted)."""
    place = "the bucket, under the lake's prefix"
    return DemoResult(
        [
            Figure("objects", objects, place),
            Figure("versions", versions, place),
            Figure("delete markers", delete_markers, place),
            Figure("S3 calls", s3_calls, "MinIO's own metrics: of this load, by all"),
        ],
        [
            Check(
                not delete_markers,
                f"{delete_markers} delete markers under the lake, and nobody may delete there",
            )
        ],
    )
