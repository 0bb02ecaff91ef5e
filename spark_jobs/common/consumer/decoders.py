"""The decoder of a stream's records, as it declares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from sluice.config.reading.protoc import compiled
from sluice.config.sections.records.declaration import Format, Records
from sluice.config.stream import StreamSpec
from sluice.core.decoding.avro.decoder import AvroDecoder
from sluice.core.decoding.by_reference import ByReference
from sluice.core.decoding.decoder import Decoder, OwnRecords, RecordDecoder
from sluice.core.decoding.json.decoder import JsonDecoder
from sluice.core.decoding.others.json_texts import JsonTextDecoder
from sluice.core.decoding.others.plain import BytesDecoder, TextDecoder
from sluice.core.decoding.others.records import OthersRecords, Tombstones
from sluice.core.decoding.protobuf.decoder import ProtobufDecoder
from sluice.core.decoding.registered.avro import RegisteredAvro, RegisteredAvroKeys
from sluice.core.decoding.registered.fingerprints import FingerprintAvro
from sluice.core.decoding.registered.json import RegisteredJson
from sluice.core.decoding.registered.own import OwnRegisteredAvro
from sluice.core.decoding.registered.protobuf import RegisteredProtobuf, RegisteredProtobufKeys
from sluice.core.decoding.registered.unfollowed import Following
from sluice.core.registry.schemas import Schemas
from sluice.core.registry.subjects import Part
from spark_jobs.common.consumer.followed import table_message, table_schema
from spark_jobs.common.kafka.avro import Schemas as OwnSchemas

_PLAIN: Mapping[str, Callable[[str], Decoder]] = {
    Format.TEXT: TextDecoder,
    Format.BYTES: BytesDecoder,
    Format.JSON: JsonTextDecoder,
}


def decoder_of(
    spec: StreamSpec,
    registry: Schemas | None = None,
    followed: str = "",
    following: Following | None = None,
) -> RecordDecoder | None:
    """The decoder of a stream's records, without Spark; None for a stream with its own function.
    ``registry``: its schemas, of a stream that declares one; ``followed``: the text of the schema that the
    table follows, empty if that is the declared one; ``following``: how it follows others. Raises
    ConfigError."""
    if spec.decode:
        return None
    decoder: RecordDecoder = (
        _of_others(spec, spec.records, registry, followed, following)
        if spec.records
        else OwnRecords(_of_own(spec, registry, followed, following))
    )
    return ByReference(decoder) if spec.consumer.by_reference else decoder


def following_of(spec: StreamSpec) -> Following:
    """How the stream's table follows the schemas of its records, but for names of columns."""
    topic = spec.topic.name if spec.uses_registry else ""
    is_text = spec.records.has_recursive_texts if spec.records else False
    subjects = tuple(spec.records.subjects) if spec.records else ()
    keeps = bool(spec.records and spec.records.unknown_column)
    return Following(
        spec.follows,
        recursive_as_text=is_text,
        topic=topic,
        subjects=subjects,
        keeps_fields=keeps,
    )


def _of_own(
    spec: StreamSpec, registry: Schemas | None, followed: str, following: Following | None
) -> Decoder:
    if spec.follows_fingerprints:
        return _of_fingerprints(spec, "", registry, followed, following)
    if not spec.topic.registry:
        return _of_values(spec)
    schemas = OwnSchemas.load(spec)
    earlier = tuple(schema.text for schema in schemas.earlier)
    return OwnRegisteredAvro(schemas.current.text, earlier, _needed(registry))


def _of_values(spec: StreamSpec, unknown: str = "") -> Decoder:
    if spec.is_avro:
        schemas = OwnSchemas.load(spec)
        earlier = tuple(schema.text for schema in schemas.earlier)
        return AvroDecoder(schemas.current.text, earlier, unknown)
    return JsonDecoder(spec.ddl_columns, unknown)


def _of_fingerprints(
    spec: StreamSpec, unknown: str, registry: Schemas | None, followed: str, following: Following | None
) -> Decoder:
    declared = OwnSchemas.load(spec).current.fingerprint
    current = table_schema(spec, followed)
    return FingerprintAvro(declared, current, _needed(registry), unknown, following or Following())


def _of_others(
    spec: StreamSpec, records: Records, registry: Schemas | None, followed: str, following: Following | None
) -> RecordDecoder:
    values: Decoder
    if not records.has_schema:
        values = _PLAIN[records.format](records.value_column)
    elif records.format == Format.PROTOBUF:
        values = _of_protobuf(spec, records, registry, followed, following)
    elif spec.follows_fingerprints:
        values = _of_fingerprints(spec, records.unknown_column, registry, followed, following)
    elif not records.registry:
        values = _of_values(spec, records.unknown_column)
    elif spec.is_avro:
        current = table_schema(spec, followed)
        values = RegisteredAvro(
            current,
            _needed(registry),
            records.unknown_column,
            following=following or following_of(spec),
        )
    else:
        values = RegisteredJson(_of_values(spec, records.unknown_column), _needed(registry))
    keys = _of_keys(records, registry) if records.key else None
    return OthersRecords(values, keys, records.headers, cast("Tombstones", records.tombstones))


def _of_protobuf(
    spec: StreamSpec, records: Records, registry: Schemas | None, followed: str, following: Following | None
) -> Decoder:
    table = table_message(spec, followed)
    if not records.registry:
        return ProtobufDecoder(table, records.unknown_column)
    following = following or following_of(spec)
    return RegisteredProtobuf(table, _needed(registry), compiled, records.unknown_column, following)


def _of_keys(records: Records, registry: Schemas | None) -> Decoder:
    if records.key == Format.AVRO:
        return RegisteredAvroKeys(records.key_column, _needed(registry))
    if records.key == Format.PROTOBUF:
        return RegisteredProtobufKeys(records.key_column, _needed(registry), compiled)
    plain = _PLAIN[records.key](records.key_column)
    if records.key == Format.JSON and records.registry:
        return RegisteredJson(plain, _needed(registry), Part.KEY, is_optional=True)
    return plain


def _needed(registry: Schemas | None) -> Schemas:
    if registry is None:
        raise ValueError("the stream's records name schemas of a registry, and there is none")
    return registry
