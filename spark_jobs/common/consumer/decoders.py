"""The decoder of a stream's records, as it declares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from sluice.config.sections.records.declaration import Format, Records
from sluice.config.stream import StreamSpec
from sluice.core.decoding.avro.decoder import AvroDecoder
from sluice.core.decoding.by_reference import ByReference
from sluice.core.decoding.decoder import Decoder, OwnRecords, RecordDecoder
from sluice.core.decoding.json.decoder import JsonDecoder
from sluice.core.decoding.others.json_texts import JsonTextDecoder
from sluice.core.decoding.others.plain import BytesDecoder, TextDecoder
from sluice.core.decoding.others.records import OthersRecords, Tombstones
from spark_jobs.common.kafka.avro import Schemas

_PLAIN: Mapping[str, Callable[[str], Decoder]] = {
    Format.TEXT: TextDecoder,
    Format.BYTES: BytesDecoder,
    Format.JSON: JsonTextDecoder,
}


def decoder_of(spec: StreamSpec) -> RecordDecoder | None:
    """The decoder of a stream's records, without Spark; None for a stream with its own function. Raises
    ConfigError."""
    if spec.decode:
        return None
    decoder: RecordDecoder = _of_others(spec, spec.records) if spec.records else OwnRecords(_of_values(spec))
    return ByReference(decoder) if spec.consumer.by_reference else decoder


def _of_values(spec: StreamSpec) -> Decoder:
    if spec.is_avro:
        schemas = Schemas.load(spec)
        return AvroDecoder(schemas.current.text, tuple(schema.text for schema in schemas.earlier))
    return JsonDecoder(spec.ddl_columns)


def _of_others(spec: StreamSpec, records: Records) -> RecordDecoder:
    values = _of_values(spec) if records.has_schema else _PLAIN[records.format](records.value_column)
    keys = _PLAIN[records.key](records.key_column) if records.key else None
    return OthersRecords(values, keys, records.headers, cast("Tombstones", records.tombstones))
