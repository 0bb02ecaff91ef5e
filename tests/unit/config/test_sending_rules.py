"""The rules by which rows become records: what a topic takes, and when they are others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sluice.config import streams
from sluice.config.sections.csv import Csv
from sluice.config.sections.topic import MAX_MESSAGE_BYTES
from sluice.config.sending_rules import MAX_REQUEST_BYTES, VERSION, SendingRules

TAXI = streams.load("nyc_taxi")
RULES = SendingRules.of(TAXI, MAX_MESSAGE_BYTES)
# The longest key, and the header of a record with a schema.
KEY, HEADERS = 16 + 1 + 18 + 1 + 18, {"avro-schema": 16}


def estimated(value: int) -> int:
    """A batch of one record, as kafka-clients 3.9 estimates it before a send: DefaultRecordBatch's
    RECORD_BATCH_OVERHEAD, and DefaultRecord.recordSizeUpperBound."""

    def varint(number: int) -> int:
        # Zigzag: a bit for the sign.
        return max(-(-(number << 1).bit_length() // 7), 1)

    headers = varint(len(HEADERS)) + sum(
        varint(len(key)) + len(key) + varint(size) + size for key, size in HEADERS.items()
    )
    return 61 + 21 + varint(KEY) + KEY + varint(value) + value + headers


@pytest.mark.parametrize("limit", [1_500, 10_000, MAX_MESSAGE_BYTES, 8 << 20, MAX_REQUEST_BYTES])
def test_a_record_of_the_largest_value_fits_also_if_it_cannot_be_compressed(limit: int) -> None:
    """zstd.h, ZSTD_COMPRESSBOUND: of what cannot be compressed 1/256 more, and 64 bytes if it is short."""
    value = SendingRules(limit, "").max_value_bytes
    batch = estimated(value)
    assert batch <= limit
    assert 61 + (batch - 61) * 257 // 256 + 64 <= limit
    # What is given up is little.
    assert value >= limit * 0.99 - 1_100


def test_a_topic_that_takes_more_than_the_producers_buffer_is_used_up_to_that() -> None:
    assert SendingRules.of(TAXI, 1 << 30).max_message_bytes == MAX_REQUEST_BYTES
    assert SendingRules.of(TAXI, 1 << 30) == SendingRules.of(TAXI, MAX_REQUEST_BYTES)


def test_rules_are_the_same_again_and_others_are_told_apart() -> None:
    planned = RULES.to_document()
    assert SendingRules.of(TAXI, MAX_MESSAGE_BYTES).differences(planned) == []
    smaller = SendingRules.of(TAXI, 900_000)
    (message,) = smaller.differences(planned)
    assert "of at most 1048588 bytes" in message
    assert "allows 900000" in message
    declared = replace(TAXI, csv=Csv(time_formats=["yyyy"], extra_columns="other_columns"))
    assert "[csv]" in "; ".join(SendingRules.of(declared, MAX_MESSAGE_BYTES).differences(planned))
    later = replace(RULES, version=VERSION + 1)
    assert f"version {VERSION}" in "; ".join(later.differences(planned))
    assert RULES.differences(None)


@pytest.mark.parametrize("name", ["nyc_taxi", "isp_hits"])
def test_a_comment_in_a_schema_makes_no_other_rules(name: str, tmp_path: Path) -> None:
    spec = streams.load(name)
    text = spec.schema_file.read_text()
    commented = f"-- said\n{text}" if not spec.is_avro else text.replace("{", '{"doc": "said", ', 1)
    other = text.replace("zipcode", "zip_code") if not spec.is_avro else text.replace('"long"', '"int"', 1)
    file = tmp_path / spec.schema
    digests = []
    for written in (text, f"{commented}\n", other):
        file.write_text(written)
        digests.append(SendingRules.declared_by(file, spec.csv))
    assert digests[0] == digests[1] != digests[2]
    assert digests[0] == SendingRules.of(spec, MAX_MESSAGE_BYTES).declaration


def test_what_is_declared_of_new_columns_counts_and_hashes_from_before_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "schema.ddl"
    file.write_text("id BIGINT\n")
    # As the version before the key made it: what is sent in part goes on.
    assert SendingRules.declared_by(file, Csv()) == "199f2d45b3cb64bf"
    assert SendingRules.declared_by(file, Csv(new_columns="column")) != "199f2d45b3cb64bf"
