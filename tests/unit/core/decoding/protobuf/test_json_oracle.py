"""Rows against Google's own JSON of the same messages."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
from google.protobuf.json_format import Error, MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.decoding.protobuf.decoder import ProtobufDecoder
from tests.support.protobuf import SHOP, messages, table
from tests.support.protobuf_rows import expected

ORDERS = table(SHOP, "shop.Order")
DECODER = ProtobufDecoder(ORDERS)


def without_nan(value: Any) -> Any:
    """NaN is not equal to itself."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return {key: without_nan(one) for key, one in value.items()}
    return type(value)(map(without_nan, value)) if isinstance(value, list | tuple) else value


def texts_read(found: dict[str, Any]) -> dict[str, Any]:
    """A row with its texts of JSON read."""
    read = {name: json.loads(found[name]) for name in ("payload", "ping") if found[name] is not None}
    return found | read | {"extras": [json.loads(text) for text in found["extras"]]}


def valid(message: Any) -> bool:
    """Google's JSON has no Value of no kind, nor a number that is none."""
    try:
        MessageToDict(message)
    # The second one from inside of another message.
    except (ValueError, Error):
        return False
    return True


@settings(max_examples=50, deadline=None)
@given(st.lists(messages(ORDERS.descriptor).filter(valid), min_size=1, max_size=5))
def test_rows_are_what_googles_json_says(sent: list[Any]) -> None:
    values = pa.array([message.SerializeToString() for message in sent], pa.binary())
    found = DECODER.decode(values, pa.array([[]] * len(sent)))
    found.columns.validate(full=True)
    assert found.reasons.null_count == len(sent)
    for message, read in zip(sent, found.columns.to_pylist(), strict=True):
        assert without_nan(texts_read(read)) == without_nan(expected(message))
