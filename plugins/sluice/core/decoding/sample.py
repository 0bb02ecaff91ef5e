"""What the values and keys of a sample of records seem to be: a guess for a person, who corrects it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.core.decoding.wire_formats import wire_format

JSON, TEXT, BYTES = "json", "text", "bytes"
# Only a registry says so: no byte of a record does.
AVRO_FORMAT, PROTOBUF_FORMAT = "avro", "protobuf"
# What a column of a table may be named; other fields stay among the unknown ones.
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_CONFLUENT = re.compile(r"schema id \((\d+)\)")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?")
_LONGEST = 2**63
_NAMED = 5


@dataclass(frozen=True)
class Guess:
    """What records seem to be."""

    format: str
    """The values' format: JSON, TEXT or BYTES, or AVRO_FORMAT, PROTOBUF_FORMAT."""
    key: str
    """The keys' format, one of the same; "" if no record has one."""
    columns: dict[str, str] = field(default_factory=dict)
    """Field of JSON values -> type in Spark's DDL; of Avro and Protobuf, Arrow's; empty for other formats."""
    doubts: list[str] = field(default_factory=list)
    """What a person should look at."""
    schema: str = ""
    """The Avro schema of the values, as JSON, or their Protobuf schema; empty for other formats."""
    imports: dict[str, str] = field(default_factory=dict)
    """The name by which a Protobuf schema imports another one -> its text."""
    message: str = ""
    """The full name of the Protobuf message that values are."""
    is_registered: bool = False
    """Whether values name their schemas in a registry."""
    subjects: str = "topic"
    """By which naming strategy its subjects were found."""


def guess(values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> Guess:
    """Guess from records, in any order; ``keys`` are of the same records."""
    sent, doubts = [value for value in values if value is not None], list[str]()
    if nulls := len(values) - len(sent):
        doubts.append(
            f"{nulls} of {len(values)} records have no value: [records] tombstones says what becomes of them"
        )
    found = [key for key in keys if key is not None]
    key = "" if not found else TEXT if all(map(_is_text, found)) else BYTES
    if 0 < len(found) < len(keys):
        doubts.append(f"{len(keys) - len(found)} of {len(keys)} records have no key")
    documents = [_document(value) for value in sent]
    objects = [one for one in documents if one is not None]
    if sent and 2 * len(objects) > len(sent):
        if others := len(sent) - len(objects):
            doubts.append(f"{others} of {len(sent)} values are no JSON object, and would be rejected")
        columns = _columns(objects, doubts)
        if columns:
            return Guess(JSON, key, columns, doubts)
    if not sent:
        doubts.append("no record with a value was found: correct the format")
        return Guess(BYTES, key, {}, doubts)
    doubts += _framing(sent)
    return Guess(TEXT if all(map(_is_text, sent)) else BYTES, key, {}, doubts)


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


def _document(value: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(value)
    # RecursionError: nested too deeply.
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _columns(objects: Sequence[dict[str, Any]], doubts: list[str]) -> dict[str, str]:
    kinds: dict[str, set[str]] = {}
    for one in objects:
        for name, value in one.items():
            if value is not None:
                kinds.setdefault(name, set()).add(_kind(value))
            else:
                kinds.setdefault(name, set())
    columns: dict[str, str] = {}
    for name, found in kinds.items():
        if not _COLUMN.fullmatch(name) or name.lower() in map(str.lower, columns):
            doubts.append(f"field {name!r} can be no column of its own: it stays in _unknown_fields")
            continue
        if kind := _type(name, found, doubts):
            columns[name] = kind
    return columns


def _type(name: str, kinds: set[str], doubts: list[str]) -> str:
    """Empty for a field that no column could take in each record."""
    if kinds == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    if len(kinds) == 1 and (kind := next(iter(kinds))) in ("BIGINT", "DOUBLE", "BOOLEAN", "STRING"):
        return kind
    if kinds == {"time"}:
        doubts.append(f"{name} looks like a time, and is kept as a text: TIMESTAMP may fit")
    elif not kinds:
        doubts.append(f"{name} is null in each record of the sample")
    elif kinds != {"time", "STRING"}:
        doubts.append(f"{name} is {' or '.join(sorted(kinds))}: it stays in _unknown_fields")
        return ""
    return "STRING"


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "BOOLEAN"
        case int():
            return "BIGINT" if -_LONGEST <= value < _LONGEST else "a number of more than 64 bits"
        case float():
            return "DOUBLE"
        case str():
            return "time" if _TIME.match(value) else "STRING"
        case list():
            return "an array"
        case _:
            return "an object"
