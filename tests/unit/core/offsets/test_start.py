"""Where a stream begins in a topic of others: what may be declared, and the offsets that it stands for."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sluice.core.offsets.start import Start, StartInvalid, StartKind
from tests.support.raising import raising

# Two partitions, the second without a record.
BOUNDS = {0: (10, 40), 1: (7, 7)}


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Start(StartKind.EARLIEST)),
        (" latest ", Start(StartKind.LATEST)),
        ("2026-06-01T02:00:00+02:00", Start(StartKind.TIME, datetime(2026, 6, 1, tzinfo=UTC))),
        ("2026-06-01T00:00:00Z", Start(StartKind.TIME, datetime(2026, 6, 1, tzinfo=UTC))),
        ("0=12 1=40", Start(StartKind.OFFSETS, offsets={0: 12, 1: 40})),
        ("{0 = 12, 1 = 40}", Start(StartKind.OFFSETS, offsets={0: 12, 1: 40})),
        ("group:connect-orders", Start(StartKind.GROUP, group="connect-orders")),
    ],
)
def test_each_form_of_a_start(text: str, start: Start) -> None:
    assert Start.parse(text) == start


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "''"),
        ("newest", "'newest'"),
        ("2026-06-01T00:00:00", "zone"),
        ("0=1 0=2", "partition 0"),
        ("0=-1", "'0=-1'"),
        ("0=1 one=2", "'one=2'"),
        (f"0={2**63}", str(2**63)),
        ("group:", "group:<its name>"),
        ("group:two words", "'two words'"),
    ],
)
def test_what_is_no_start(text: str, said: str) -> None:
    with raising(StartInvalid, said, "Fix: "):
        Start.parse(text)


@pytest.mark.parametrize(
    ("text", "asked", "offsets"),
    [
        ("earliest", {}, {0: 10, 1: 7}),
        ("latest", {}, {0: 40, 1: 7}),
        ("2026-06-01T00:00:00Z", {0: 20, 1: 7}, {0: 20, 1: 7}),
        ("0=10 1=7", {}, {0: 10, 1: 7}),
        ("0=40 1=7", {}, {0: 40, 1: 7}),
        ("group:g", {0: 30, 1: 7}, {0: 30, 1: 7}),
        # A partition of which the group has committed nothing: all that is kept of it.
        ("group:g", {0: 30}, {0: 30, 1: 7}),
        # Partitions that the topic no longer has, or has since it was asked, are not its own.
        ("group:g", {0: 30, 2: 5}, {0: 30, 1: 7}),
    ],
)
def test_the_offsets_of_a_start(text: str, asked: dict[int, int], offsets: dict[int, int]) -> None:
    assert Start.parse(text).offsets_in(BOUNDS, asked) == offsets


@pytest.mark.parametrize(
    ("text", "asked", "data"),
    [
        ("0=9 1=7", {}, ("partition 0", 9, "[10, 40)")),
        ("0=41 1=7", {}, ("partition 0", 41)),
        ("0=10", {}, ("partition 1", "0 to 1")),
        ("0=10 1=7 2=0", {}, ("partition 2", "no such partition")),
        ("group:g", {}, ("'g'", "no offset")),
        ("group:g", {0: 9}, ("'g'", "partition 0", 9)),
        ("group:g", {0: 20, 1: 8}, ("'g'", "partition 1", 8)),
    ],
)
def test_a_start_that_the_topic_does_not_have(text: str, asked: dict[int, int], data: tuple[object]) -> None:
    with raising(StartInvalid, *data, "Fix: "):
        Start.parse(text).offsets_in(BOUNDS, asked)
