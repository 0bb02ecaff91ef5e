"""The repository's streams, and one that there is not."""

from __future__ import annotations

from sluice.config import streams
from sluice.config.reading.toml import ConfigError
from tests.support.raising import raising


def test_every_stream_of_the_repository_is_well_declared() -> None:
    assert {"nyc_taxi", "wiki_changes"} <= set(streams.names())
    for name in streams.names():
        spec = streams.load(name)
        assert spec.schema_file.is_file()


def test_an_unknown_stream_is_named_with_the_known_ones() -> None:
    with raising(ConfigError, "'taxi'", *streams.names()):
        streams.load("taxi")
