"""JSON that others wrote: what is refused, and that no text takes long."""

from __future__ import annotations

import json
import time

import pytest

from sluice.core.registry.errors import RefusedSchema
from sluice.core.registry.json_text import MAX_NESTING, MAX_TEXT_BYTES, deepest, read
from tests.support.raising import raising


@pytest.mark.parametrize("depth", [0, 1, 5])
def test_brackets_in_strings_are_no_nesting(depth: int) -> None:
    text = "[" * depth + json.dumps('{[{[ " \\ ]') + "]" * depth
    assert deepest(text) == depth
    assert read(text, "x") == json.loads(text)


def test_a_text_may_be_nested_as_deep_as_the_bound() -> None:
    read("[" * MAX_NESTING + "]" * MAX_NESTING, "x")
    with raising(RefusedSchema, "schema id 7", MAX_NESTING + 1, MAX_NESTING):
        read("[" * (MAX_NESTING + 1) + "]" * (MAX_NESTING + 1), "schema id 7")


@pytest.mark.parametrize("text", ["", "{", '{"a": 1', "NaN", '{"a": Infinity}', "[1e]", "9" * 5_000, '"\\'])
def test_what_is_no_json_is_refused_by_name(text: str) -> None:
    with raising(RefusedSchema, "schema id 7 is not JSON"):
        read(text, "schema id 7")


def test_a_large_text_is_refused_by_its_bytes() -> None:
    half = '"' + "é" * (MAX_TEXT_BYTES // 2) + '"'
    with raising(RefusedSchema, "schema id 7", MAX_TEXT_BYTES + 2):
        read(half, "schema id 7")
    assert len(read('"' + "x" * (MAX_TEXT_BYTES - 2) + '"', "x")) == MAX_TEXT_BYTES - 2


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * (MAX_TEXT_BYTES // 2 - 1),
        '"\\' * (MAX_TEXT_BYTES // 2),
        "[" * MAX_TEXT_BYTES,
        '"' * MAX_TEXT_BYTES,
    ],
    ids=["a string without an end", "escaped ends", "brackets", "empty strings"],
)
def test_no_text_takes_the_square_of_its_length(text: str) -> None:
    began = time.process_time()
    with raising(RefusedSchema):
        read(text, "x")
    assert time.process_time() - began < 2
