from __future__ import annotations

import pytest

from sluice.core.offsets.sources import source_id
from tests.support.kafka_records import row_identity


def test_an_overwritten_object_is_another_source() -> None:
    assert source_id("b", "k", "v1") == source_id("b", "k", "v1")
    assert len({source_id("b", "k", "v1"), source_id("b", "k", "v2"), source_id("b", "kv", "1")}) == 3


@pytest.mark.parametrize(
    "key", [None, b"", b"rides", b"0123456789abcdef:1", b"0123456789abcdeg:1:2", b"\xff\xfe"]
)
def test_the_key_of_another_producer_is_no_identity(key: bytes | None) -> None:
    assert row_identity(key) is None


def test_our_key_is_read_back() -> None:
    assert row_identity(b"0123456789abcdef:12:3") == ("0123456789abcdef", 12, 3)
