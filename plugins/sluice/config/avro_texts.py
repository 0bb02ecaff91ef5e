"""The text of a stream's Avro schema, as its table has it."""

from __future__ import annotations

import json

from sluice.config.reading.toml import ConfigError
from sluice.config.stream import StreamSpec
from sluice.core.decoding.avro.names import is_recursive


def table_avro(spec: StreamSpec, text: str, where: str) -> str:
    """With a text of JSON for each field that is inside of itself, if the stream declares that. Raises
    ConfigError for one if it does not, and KeyError and others for what is no schema."""
    if not is_recursive(json.loads(text)):
        return text
    # Arrow, which other streams' declarations do not need.
    from sluice.core.decoding.avro.following.recursive import unrolled
    from sluice.core.decoding.avro.parsing import parsed
    from sluice.core.decoding.avro.types import UnsupportedSchema

    try:
        if spec.records and spec.records.has_recursive_texts:
            return unrolled(text)
        parsed(text)
    except UnsupportedSchema as error:
        fix = 'remove the field, or keep it as a text with recursive_fields = "json" in [records]'
        raise ConfigError(f"{where}: {error}. Fix: {fix}") from error
    return text
