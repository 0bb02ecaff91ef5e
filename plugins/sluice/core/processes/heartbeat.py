"""Heartbeats of producers and queries, in the offset metadata of their Kafka group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sluice.core.json_record import JsonRecord, parse_json

# Seconds between heartbeats of a living component (spark_jobs.common.kafka.heartbeat).
HEARTBEAT_INTERVAL = 5.0
MAX_DETAIL = 200


class HeartbeatState(StrEnum):
    # Its source has not answered since it last did.
    CONNECTING = "connecting"
    # Its source answers: with events, or without.
    STREAMING = "streaming"
    WAITING = "waiting"
    # It waits for Kafka to acknowledge records.
    BACKPRESSURED = "backpressured"
    # It polls for work: none, or some.
    IDLE = "idle"
    WORKING = "working"


NO_INPUT = frozenset({HeartbeatState.WAITING, HeartbeatState.IDLE})


@dataclass(frozen=True)
class Heartbeat(JsonRecord):
    """``at`` and ``since`` (start of the state): seconds since 1970, the component's clock. ``ends``:
    partition -> next offset to be sent or read. ``pid``: of the process; ``detail``: of ``state``."""

    at: float
    pid: int
    state: HeartbeatState
    since: float
    detail: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Metadata:
    """``at`` and ``since`` in milliseconds since 1970."""

    at: float
    pid: int
    state: HeartbeatState
    since: float
    detail: str = ""


def parse_heartbeat(metadata: str, ends: Mapping[int, int]) -> Heartbeat:
    """The heartbeat in a group's metadata; ``ends``: the group's offsets. Raises ValueError naming the key.

    Characters of the detail that are not printable become blanks, and it is cut to MAX_DETAIL.
    """
    found = parse_json(_Metadata, metadata)
    detail = "".join(character if character.isprintable() else " " for character in found.detail)
    return Heartbeat(
        found.at / 1000, found.pid, found.state, found.since / 1000, detail[:MAX_DETAIL], dict(ends)
    )
