"""Numbers, times, and texts without addresses."""

from __future__ import annotations

import pytest

from sluice.core.messages import iso
from sluice.web import formats


def test_numbers() -> None:
    assert [formats.count(n) for n in (None, 0, 1234)] == ["–", "0", "1,234"]
    assert [formats.rate(n) for n in (None, 0, 12.34, 1234.5)] == ["–", "0", "12.3", "1,234"]


def test_moments() -> None:
    now = 1_767_268_800.0  # 2026-01-01 12:00
    assert formats.moment(now - 3, now) == "11:59:57 UTC"
    assert formats.moment(now - 86_400, now) == "31 Dec, 12:00:00 UTC"
    assert iso(now) == "2026-01-01T12:00:00+00:00"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("supervisord at http://127.0.0.1:19001/RPC2: [Errno 111]", "supervisord at …: [Errno 111]"),
        ("broker kafka-1.example.com:9093: no answer", "broker …: no answer"),
        ("connect to localhost:5432 failed", "connect to … failed"),
        ("s3://warehouse/ledger/rides/a.json is gone", "… is gone"),
        ("(/srv/sluice/platform/airflow.toml): key 'x'", "(…): key 'x'"),
        ("database lake at postgres:5432: no answer", "database lake at …: no answer"),
        ("broker kafka:9092/1: ipv4#172.18.0.3:9092 failed", "broker …/1: ipv4#… failed"),
        ('to server at "db-1" (10.1.2.3), port 5432 failed: FATAL', "to server at … failed: FATAL"),
        ("no MySQL server on 'db-1' ([Errno 111])", "no MySQL server on … ([Errno 111])"),
        ('could not translate host name "db-1" to address', "could not translate host name … to address"),
        ("no route to 10.1.2.3", "no route to …"),
        # What is no address.
        ("rides/stream.toml: 'a/b' at 12:30:05, 3/4", "rides/stream.toml: 'a/b' at 12:30:05, 3/4"),
        ("partition 3: 500, 10/s arrive", "partition 3: 500, 10/s arrive"),
        ("epoch 3:1234, SLU-232: 1.2.3", "epoch 3:1234, SLU-232: 1.2.3"),
    ],
)  # fmt: skip
def test_texts_for_every_reader(text: str, shown: str) -> None:
    assert formats.public(text) == shown
