"""What a heartbeat is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.model.health.heartbeat import MAX_DETAIL, Heartbeat, HeartbeatState, parse_heartbeat
from tests.support.raising import raising

TOLD: dict[str, Any] = {"at": 1_500, "pid": 7, "state": "streaming", "since": 500, "detail": "12 sent"}


def test_a_beat_is_what_the_part_told() -> None:
    assert parse_heartbeat(json.dumps(TOLD), {0: 5}) == Heartbeat(
        1.5, 7, HeartbeatState.STREAMING, 0.5, "12 sent", {0: 5}
    )
    assert parse_heartbeat(json.dumps(TOLD | {"later": "word"}), {}).detail == "12 sent"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("", "not JSON"),
        ("[]", "a list, and no object"),
        ("null", "a NoneType, and no object"),
        *[(json.dumps(TOLD | {key: None}), f"{key} is None") for key in TOLD],
        (json.dumps({}), "at is None"),
        (json.dumps(TOLD | {"at": "1500"}), "at is '1500', and no number"),
        (json.dumps(TOLD | {"pid": True}), "pid is True, and no number"),
        (json.dumps(TOLD | {"state": "dancing"}), "state is 'dancing', and none of connecting, streaming"),
        (json.dumps(TOLD | {"state": ["idle"]}), "state is"),
        (json.dumps(TOLD | {"detail": 5}), "detail is 5, and no text"),
    ],
)  # fmt: skip
def test_what_is_no_beat_says_why(told: str, words: str) -> None:
    with raising(ValueError, words):
        parse_heartbeat(told, {0: 5})


def test_a_detail_is_one_printable_line() -> None:
    evil = "a\nb\x1b[31m\u202e\u2028" + "x" * 1000
    detail = parse_heartbeat(json.dumps(TOLD | {"detail": evil}), {}).detail
    assert detail.isprintable()
    assert (detail[:4], len(detail)) == ("a b ", MAX_DETAIL)
