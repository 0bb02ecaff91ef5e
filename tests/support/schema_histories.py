"""Histories of a schema that no one plans: versions that a table can follow and others that it cannot, at any
depth, made of any earlier version, and sent by producers that take turns."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np

from tests.support.schema_versions import Histories, has_all, lineage

OTHER: list[Any] = [
    "string",
    "boolean",
    {"type": "array", "items": "string"},
    {"type": "map", "values": "long"},
    {"type": "bytes", "logicalType": "decimal", "precision": 11, "scale": 1},
    {"type": "long", "logicalType": "timestamp-micros"},
    ["int", "string"],
    ["null", "long"],
]


class Unplanned(Histories):
    def history(self, number: int) -> list[dict[str, Any]]:
        """The first one is the declared one."""
        found = [self.schema(2)]
        while len(found) < number:
            base = found[-1] if self._may(0.7) else self.random.choice(found)
            tree = self.next_version(base) if self._may(0.7) else base
            found.append(self.broken(tree) if self._may(0.4) or tree == base else tree)
        return found

    def broken(self, tree: dict[str, Any]) -> dict[str, Any]:
        """With a change that may be one too many."""
        tree = deepcopy(tree)
        record, _ = self.random.choice([*_records(tree)])
        fields, kind = (
            record["fields"],
            self.random.choice(["type", "type", "case", "own", "recursive", "twice"]),
        )
        names = {one["name"].lower() for one in fields}
        if kind == "case" and fields:
            name = self.random.choice(fields)["name"].upper()
            if name not in {one["name"] for one in fields}:
                fields.append({"name": name, "type": "int"})
        elif kind == "own" and "_kafka_x" not in names:
            fields.append({"name": "_kafka_x", "type": "int"})
        elif kind == "recursive":
            fields.append({"name": self._name("f"), "type": ["null", record["name"]]})
        elif kind == "twice":
            # What another partition may name as well.
            fields.append({"name": "f_two", "type": self.random.choice(["int", "long", "string"])})
            if any(lineage(one) == "f_two" for one in names):
                fields.pop()
        else:
            # Not one that defines a type, which is used elsewhere.
            plain = [one for one in fields if not [*_records(one["type"])]]
            if plain:
                self.random.choice(plain)["type"] = self.random.choice(OTHER)
        return tree

    def schedule(self, versions: int) -> Iterator[list[int]]:
        """The versions of a batch, from 0, until each was there."""
        for newest in range(versions):
            yield [newest, *(self.random.randint(0, newest) for _ in range(self.random.randint(0, 3)))]

    def values(self, tree: Any, number: int) -> list[bytes]:
        """Bodies of a version."""
        return [self.shallow(tree) for _ in range(number)]

    def shallow(self, tree: Any) -> bytes:
        """A body; where the schema contains itself there are at most a few of it."""
        every = {one["name"]: one for one, _ in _records(tree)}
        return _Deep(self.random, every).body(tree)


class _Deep(Histories):
    def __init__(self, random: Random, every: dict[str, Any]) -> None:
        super().__init__(random)
        self._every, self._level = every, 0

    def body(self, kind: Any) -> bytes:
        if isinstance(kind, str) and kind in self._every:
            self._level += 1
            found = super().body(self._every[kind])
            self._level -= 1
            return found
        if isinstance(kind, list) and kind[-1] in [*self._every] and (self._level > 2 or self._may(0.5)):
            return b"\0"
        return super().body(kind)


def _records(kind: Any, path: str = "") -> Iterator[tuple[dict[str, Any], str]]:
    if isinstance(kind, list):
        for one in kind:
            yield from _records(one, path)
    elif isinstance(kind, dict):
        if kind["type"] == "record":
            yield kind, path
            for field in kind["fields"]:
                yield from _records(field["type"], f"{path}.{field['name']}")
        for key in ("items", "values"):
            if key in kind:
                yield from _records(kind[key], f"{path}[]")


def is_whole(row: Any, value: Any) -> bool:
    """As ``has_all``, also where a column has what was sent in another form: the text of JSON, or what a
    decimal or a time is made of."""
    if isinstance(row, dict) and isinstance(value, dict):
        mine, own = ({lineage(name): one for name, one in each.items()} for each in (row, value))
        return own.keys() <= mine.keys() and all(
            is_whole(one, own[name]) if name in own else one is None for name, one in mine.items()
        )
    if row == [] and value == {}:
        # A map without entries.
        return True
    if isinstance(row, list) and isinstance(value, list):
        return len(row) == len(value) and all(is_whole(*two) for two in zip(row, value, strict=True))
    return has_all(row, value) or any(row == one for one in _forms(value)) or _is_json_of(row, value)


def _is_json_of(row: Any, value: Any) -> bool:
    """Whether it is the text of JSON; a number of 64 bits may be one of 32 bits that became wider."""
    if not isinstance(row, str) or isinstance(value, str) or value is None:
        return bool(row == json_of(value)) and value is not None
    one, other = (json.loads(text, parse_float=np.float32) for text in (row, json_of(value)))
    return bool(one == other)


def _forms(value: Any) -> Iterator[Any]:
    """What else may stand for a value."""
    if isinstance(value, str):
        yield value.encode()
    if isinstance(value, bytes):
        yield value.decode(errors="replace")
    if isinstance(value, Decimal):
        number = int(value.scaleb(-int(value.as_tuple().exponent)))
        yield from (
            number.to_bytes(size, "big", signed=True) for size in range(number.bit_length() // 8 + 1, 20)
        )
    if isinstance(value, datetime):
        since = value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        micros = since // timedelta(microseconds=1)
        yield from (micros, micros // 1000)
    if isinstance(value, date) and not isinstance(value, datetime):
        yield (value - date(1970, 1, 1)).days


def json_of(value: Any) -> str:
    """As the texts of JSON have it."""
    if isinstance(value, dict):
        return "{%s}" % ",".join(f"{json.dumps(name)}:{json_of(one)}" for name, one in value.items())  # noqa: UP031
    if isinstance(value, list):
        return f"[{','.join(map(json_of, value))}]"
    if isinstance(value, bytes):
        return f'"{b64encode(value).decode()}"'
    if isinstance(value, datetime):
        zone = "" if value.tzinfo is None else "Z"
        return f'"{value.replace(tzinfo=None).isoformat(timespec="microseconds")}{zone}"'
    if isinstance(value, Decimal | date):
        return f'"{value:f}"' if isinstance(value, Decimal) else f'"{value}"'
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if isinstance(value, float):
        # Records inside of themselves have none of 64 bits that is none of 32.
        return str(np.float32(value)) if float(np.float32(value)) == value else repr(value)
    return json.dumps(value, ensure_ascii=False)
