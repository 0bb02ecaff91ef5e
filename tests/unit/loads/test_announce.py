"""The interval that a load's event is of."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.loads.announce import partition_key

GENERATED = {"source_id": "g", "kind": "generated", "parameters": {"start_time": "2026-11-21T12:00:00+02:00"}}


@pytest.mark.parametrize(
    ("plan", "key"),
    [
        ({"params": {"interval": "2026-06-01T00:00:00+00:00"}, "sources": []}, "2026-06-01T00:00:00"),
        ({"params": {}, "sources": [GENERATED]}, "2026-11-21T10:00:00"),
        # Its records were verified before, so they are in no plan again.
        ({"params": {"start_time": "2026-11-21T10:00:00Z"}, "sources": []}, "2026-11-21T10:00:00"),
        ({"params": {"source_prefix": "a/"}, "sources": [{"source_id": "o", "bucket": "b"}]}, None),
        ({"params": {"events": 5}, "sources": [{"source_id": "f", "kind": "feed"}]}, None),
    ],
)
def test_the_key_is_the_begin_of_what_the_load_is_of(plan: dict[str, Any], key: str | None) -> None:
    assert partition_key(plan) == key
