"""Heartbeats: what a producer or queries say of themselves, in the offsets of their Kafka group."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sluice.model.health.json_record import JsonRecord

# How often a part gives one while it is alive (spark_jobs.common.kafka.heartbeat).
HEARTBEAT_INTERVAL = 5.0
MAX_DETAIL = 200


class HeartbeatState(StrEnum):
    """What a part says that it does."""

    # Its source does not answer, since it last did.
    CONNECTING = "connecting"
    # Its source answers: with news, or without.
    STREAMING = "streaming"
    WAITING = "waiting"
    # Kafka has to catch up first.
    BACKPRESSURED = "backpressured"
    # It looks for work by itself, and finds some or none.
    IDLE = "idle"
    WORKING = "working"


NOTHING_COMES = frozenset({HeartbeatState.WAITING, HeartbeatState.IDLE})


@dataclass(frozen=True)
class Heartbeat(JsonRecord):
    """One heartbeat. ``at`` and ``since`` (when the state began): seconds since 1970, the part's clock.

    ``ends``: partition -> the next offset to be sent, or to be read. ``detail``: one line of the part's own.
    """

    at: float
    pid: int
    state: HeartbeatState
    since: float
    detail: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)


def parse_heartbeat(metadata: str, ends: Mapping[int, int]) -> Heartbeat:
    """The beat in a group's metadata: ``{"at": ms, "pid": n, "state": …, "since": ms, "detail": …}``.

    ``ends``: the group's offsets. What is not printable in the detail becomes a blank, and it is cut. Raises
    ValueError for anything else than such an object; it says what lacks or is wrong.
    """
    try:
        data = json.loads(metadata)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error})") from error
    if not isinstance(data, dict):
        raise ValueError(f"a {type(data).__name__}, and no object")
    for name in ("at", "pid", "since"):
        # bool is an int to Python.
        if not isinstance(data.get(name), int | float) or isinstance(data[name], bool):
            raise ValueError(f"{name} is {data.get(name)!r}, and no number")
    state, detail = data.get("state"), data.get("detail", "")
    if not isinstance(state, str) or state not in HeartbeatState.__members__.values():
        raise ValueError(f"state is {state!r}, and none of {', '.join(HeartbeatState)}")
    if not isinstance(detail, str):
        raise ValueError(f"detail is {detail!r}, and no text")
    line = "".join(character if character.isprintable() else " " for character in detail)
    return Heartbeat(
        at=data["at"] / 1000,
        pid=int(data["pid"]),
        state=HeartbeatState(state),
        since=data["since"] / 1000,
        detail=line[:MAX_DETAIL],
        ends=dict(ends),
    )
