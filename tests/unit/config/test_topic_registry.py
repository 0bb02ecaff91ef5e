"""A stream of Sluice's own that registers its schema: what may declare it."""

from __future__ import annotations

import pytest

from sluice.config import streams
from sluice.config.reading.toml import ConfigError
from tests.support.declarations import OF_OTHERS, toml
from tests.support.raising import raising
from tests.unit.config.test_stream import FEED

NO_FILES = ('[csv]\ntime_formats = ["dd.MM.yyyy HH:mm"]\n', "")
ON = ("[topic]\n", "[topic]\nregistry = true\n")


def test_a_stream_of_files_may_and_none_does_by_default() -> None:
    assert not streams.parse(toml(), "stream.toml").uses_registry
    for schema in ("schema.avsc", "schema.ddl"):
        spec = streams.parse(toml("fuzzed", ON, ("schema.avsc", schema)), "stream.toml")
        assert spec.topic.registry
        assert spec.uses_registry
    assert not any(streams.load(name).uses_registry for name in streams.names())


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (OF_OTHERS.replace(*ON), ("topic registry with managed = false", "[records]")),
        (toml("fuzzed", ON, NO_FILES, more=FEED), ("topic registry with [feed]",)),
        (
            toml("fuzzed", ON, NO_FILES, ("schema.avsc", "schema.ddl"), more='[generator]\nrows = "m:f"\n'),
            ("topic registry with schema 'schema.ddl'",),
        ),
        (toml("fuzzed", ON, more='[records]\nformat = "avro"\n'), ("[records] and", "below [topic]")),
    ],
)
def test_what_does_not_go_with_it(text: str, data: tuple[str, ...]) -> None:
    with raising(ConfigError, "stream.toml", *data, "Fix: "):
        streams.parse(text, "stream.toml")
