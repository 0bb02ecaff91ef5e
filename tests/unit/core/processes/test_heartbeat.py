"""What a heartbeat is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.core.processes.heartbeat import MAX_DETAIL, Heartbeat, HeartbeatState, parse_heartbeat
from tests.support.raising import raising

TOLD: dict[str, Any] = {"at": 1_500, "pid": 7, "state": "streaming", "since": 500, "detail": "12 sent"}


def test_a_heartbeat_is_what_the_component_told() -> None:
    assert parse_heartbeat(json.dumps(TOLD), {0: 5}) == Heartbeat(
        1.5, 7, HeartbeatState.STREAMING, 0.5, "12 sent", {0: 5}
    )
    assert parse_heartbeat(json.dumps(TOLD | {"later": "word"}), {}).detail == "12 sent"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("", "Invalid JSON"),
        ("[]", "should be an object, got []"),
        ("null", "should be an object, got None"),
        *[(json.dumps(TOLD | {key: None}), f"{key}: Input should be") for key in TOLD],
        (json.dumps({}), "at: Field required"),
        (json.dumps(TOLD | {"at": "1500"}), "at: Input should be a valid number, got '1500'"),
        (json.dumps(TOLD | {"pid": True}), "pid: Input should be a valid integer, got True"),
        (json.dumps(TOLD | {"state": "dancing"}), "or 'working', got 'dancing'"),
        (json.dumps(TOLD | {"state": ["idle"]}), "state: Input should be 'connecting', 'streaming'"),
        *[
            (json.dumps(TOLD).replace("1500", number, 1), "at: Input should be a finite number, got")
            for number in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400)
        ],
        (json.dumps(TOLD | {"detail": 5}), "detail: Input should be a valid string, got 5"),
    ],
)  # fmt: skip
def test_what_is_no_heartbeat_says_why(told: str, words: str) -> None:
    with raising(ValueError, words):
        parse_heartbeat(told, {0: 5})


def test_a_detail_is_one_printable_line() -> None:
    evil = "a\nb\x1b[31m\u202e\u2028" + "x" * 1000
    detail = parse_heartbeat(json.dumps(TOLD | {"detail": evil}), {}).detail
    assert detail.isprintable()
    assert (detail[:4], len(detail)) == ("a b ", MAX_DETAIL)
