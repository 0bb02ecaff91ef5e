"""What the values and keys of a sample of records seem to be: a guess for a person, who corrects it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.json.document import Members, Number, members
from sluice.core.decoding.sampled_types import Value, type_of
from sluice.core.decoding.wire_formats import wire_format

JSON, TEXT, BYTES = "json", "text", "bytes"
# Only a registry says so: no byte of a record does.
AVRO_FORMAT, PROTOBUF_FORMAT = "avro", "protobuf"
_CONFLUENT = re.compile(r"schema id \((\d+)\)")
# As many bytes as a decimal of 38 digits has, at most.
_BASE64 = re.compile(r"(?=.{4,24}\Z)(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_NAMED = 5


@dataclass(frozen=True)
class Sampled:
    """A record of a sample."""

    value: bytes | None
    """None of a tombstone."""
    key: bytes | None = None
    """None of a record without one."""
    headers: Sequence[tuple[bytes, bytes | None]] | None = ()
    """Pairs of key and value in their order; None if they are too many to be read."""
    partition: int = 0
    """From 0."""
    offset: int = 0
    """From 0 in each partition."""

    @property
    def place(self) -> str:
        return f"partition {self.partition}, offset {self.offset}"


@dataclass(frozen=True)
class Guess:
    """What records seem to be."""

    format: str
    """The values' format: JSON, TEXT or BYTES, or AVRO_FORMAT, PROTOBUF_FORMAT."""
    key: str
    """The keys' format, one of the same; "" if no record has one."""
    columns: dict[str, str] = field(default_factory=dict)
    """Field of JSON values -> type in Spark's DDL, also if no column can be named so; of Avro and Protobuf,
    Arrow's; empty for other formats."""
    doubts: list[str] = field(default_factory=list)
    """What a person should look at."""
    frames: list[str] = field(default_factory=list)
    """Those doubts that say how values seem to be framed: what a registry says takes their place."""
    schema: str = ""
    """The Avro schema of the values, as JSON, or their Protobuf schema; empty for other formats."""
    imports: dict[str, str] = field(default_factory=dict)
    """The name by which a Protobuf schema imports another one -> its text."""
    message: str = ""
    """The full name of the Protobuf message that values are."""
    is_recursive: bool = False
    """Whether a record or message has itself inside: such a field is to be a text of JSON."""
    is_registered: bool = False
    """Whether values name their schemas in a registry."""
    has_headers: bool = False
    """Whether records have headers, and all of them can be kept."""
    subjects: str = "topic"
    """By which naming strategy its subjects were found."""
    other_subject: str = ""
    """The only one that the newest schema has, if that is another topic's."""


def guess(records: Sequence[Sampled]) -> Guess:
    """Guess from records, in any order."""
    sent, doubts = [one for one in records if one.value is not None], list[str]()
    if nulls := len(records) - len(sent):
        doubts.append(
            f"{nulls} of {len(records)} records have no value: [records] tombstones says what becomes of them"
        )
    found = [one.key for one in records if one.key is not None]
    key = "" if not found else TEXT if all(map(_is_text, found)) else BYTES
    if 0 < len(found) < len(records):
        doubts.append(f"{len(records) - len(found)} of {len(records)} records have no key")
    has_headers = _has_headers(records, doubts)
    read = [(one.place, _document(one)) for one in sent]
    objects = [(place, document) for place, document in read if document is not None]
    if sent and 2 * len(objects) > len(sent):
        if others := len(sent) - len(objects):
            first = next(place for place, document in read if document is None)
            doubts.append(
                f"{others} of {len(sent)} values are no JSON object, the first in {first}: they would be "
                "rejected"
            )
        columns = _columns(objects, doubts)
        doubts += _of_connect([document for _, document in objects], columns)
        if columns:
            return Guess(JSON, key, columns, doubts, has_headers=has_headers)
    values = [one.value or b"" for one in sent]
    if not sent:
        doubts.append("no record with a value was found: correct the format")
        return Guess(BYTES, key, {}, doubts, has_headers=has_headers)
    frames, is_text = _framing(values), all(map(_is_text, values))
    kind = TEXT if is_text else BYTES
    return Guess(kind, key, {}, [*doubts, *frames], frames=frames, has_headers=has_headers)


def _has_headers(records: Sequence[Sampled], doubts: list[str]) -> bool:
    """Whether records have headers that a column takes."""
    having = [one for one in records if one.headers is None or one.headers]
    for one in having:
        if one.headers is None or not all(_is_utf8(key) for key, _ in one.headers):
            why = "too many headers" if one.headers is None else "a header whose key is not UTF-8"
            doubts.append(f"{one.place} has {why}: headers are not kept, for this would reject the record")
            return False
    return bool(having)


def _framing(values: Iterable[bytes]) -> list[str]:
    """What frames of schema registries the values seem to have."""
    frames = Counter(words for value in values if (words := wire_format(value)) is not None and value)
    ids = sorted({int(found[1]) for words in frames if (found := _CONFLUENT.search(words))})
    if ids:
        named = ", ".join(map(str, ids[:_NAMED]))
        message = (
            f"values are in Confluent's wire format, with schema ids {named}: put the schema into "
            'schema.avsc, and write format = "avro" and registry = true'
        )
        return [message]
    return [f"{count} values: each {words}" for words, count in frames.most_common(_NAMED)]


def _is_text(value: bytes) -> bool:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character in "\n\r\t" for character in text)


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _document(record: Sampled) -> Members | None:
    try:
        return members(record.value)[1]
    except Malformed:
        return None


def _columns(objects: Sequence[tuple[str, Members]], doubts: list[str]) -> dict[str, str]:
    values: dict[str, list[Value]] = {}
    for place, one in objects:
        for name, found in one:
            values.setdefault(name, [])
            if found is not None:
                values[name].append(Value(found, place))
    columns: dict[str, str] = {}
    for name, found in values.items():
        kind, doubt = type_of(name, found)
        doubts += [doubt] if doubt else []
        if kind:
            columns[name] = kind
    return columns


def _of_connect(objects: Iterable[Members], columns: Mapping[str, str]) -> list[str]:
    """Fields whose texts may be decimals of Connect's converter, of which some are numbers, too: "1234"."""
    texts: dict[str, list[str]] = {}
    for one in objects:
        for name, value in one:
            if isinstance(value, str) and not isinstance(value, Number):
                texts.setdefault(name, []).append(value)
    return [
        f"{name!r} has texts in base64, as decimals of Kafka Connect's JsonConverter: declare it STRING, not "
        "DECIMAL, or set decimal.format=NUMERIC there"
        for name, found in texts.items()
        if columns.get(name) == "STRING"
        if all(map(_BASE64.fullmatch, found)) and any(text.endswith("=") for text in found)
    ]
