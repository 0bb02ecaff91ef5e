"""Avro schemas, bodies, other bytes and later schemas, drawn by chance."""

from __future__ import annotations

import json
import struct
from itertools import count
from random import Random
from typing import Any

import pyarrow as pa

from sluice.core.decoding.avro.decoder import AvroDecoder
from sluice.core.decoding.decoder import Decoded
from sluice.core.record_batches import records
from tests.support.hostile_records import zigzag

HEADERS = records.SCHEMA.field("headers").type
PRIMITIVES: list[Any] = [
    "boolean", "int", "long", "float", "double", "bytes", "string",
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 19},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 38},
]  # fmt: skip
UNIONS: list[list[Any]] = [
    ["int", "string"], ["null", "string", "long"], ["int", "long"], ["double", "null", "float"],
    ["boolean", "bytes", "null", "int"], ["boolean"], ["null", "long", "int", "double"],
]  # fmt: skip
# By type: the widest numbers that Python has as dates and times.
_TIMES = {
    "date": (-719_162, 2_932_896),
    "timestamp-millis": (-62_135_596_800_000, 253_402_300_799_999),
    "timestamp-micros": (-62_135_596_800_000_000, 253_402_300_799_999_999),
}
# To types that have each number: a long that no double has is rejected.
_PROMOTED = {"int": ["long", "double"], "float": ["double"], "string": ["bytes"]}


class Chance:
    """What is drawn by ``random``, of which hypothesis has its own."""

    def __init__(self, random: Random) -> None:
        self.random, self._numbers = random, count()

    def _name(self, letter: str) -> str:
        return f"{letter}{next(self._numbers)}"

    def schema(self, depth: int = 3) -> dict[str, Any]:
        fields = [
            {"name": self._name("f"), "type": self.type(depth)} for _ in range(self.random.randint(1, 4))
        ]
        return {"type": "record", "name": self._name("R"), "fields": fields}

    def type(self, depth: int) -> Any:
        kinds = ["primitive"] * 3 + ["enum", "fixed", "decimal"]
        if depth:
            kinds += ["optional", "array", "map", "record", "union", "union of records"]
        kind = self.random.choice(kinds)
        if kind == "primitive":
            return self.random.choice(PRIMITIVES)
        if kind == "enum":
            return {"type": "enum", "name": self._name("E"), "symbols": ["A", "B", "C"]}
        if kind in ("fixed", "decimal"):
            logical = {"logicalType": "decimal", "precision": 20, "scale": 3} if kind == "decimal" else {}
            return {"type": "fixed", "name": self._name("F"), "size": 9, **logical}
        if kind == "record":
            return self.schema(depth - 1)
        if kind == "union":
            return self.random.choice(UNIONS)
        if kind == "union of records":
            return ["null", "long", self.schema(depth - 1), self.schema(depth - 1)]
        inner = self.type(depth - 1)
        if kind == "optional":
            other = ["null", inner] if self.random.random() < 0.7 else [inner, "null"]
            return inner if isinstance(inner, list) else other
        return {"type": kind, "items" if kind == "array" else "values": inner}

    def body(self, kind: Any) -> bytes:
        """A valid one."""
        if isinstance(kind, list):
            branch = self.random.randrange(len(kind))
            return zigzag(branch) + self.body(kind[branch])
        name, logical = (kind, None) if isinstance(kind, str) else (kind["type"], kind.get("logicalType"))
        if name == "record":
            return b"".join(self.body(field["type"]) for field in kind["fields"])
        if name in ("array", "map"):
            return self._blocks(kind)
        if logical == "decimal":
            most = 10 ** kind["precision"] - 1
            number = self.random.choice([0, 1, -1, most, -most, self.random.randint(-most, most)])
            size = kind.get("size", number.bit_length() // 8 + 1)
            return (b"" if name == "fixed" else zigzag(size)) + number.to_bytes(size, "big", signed=True)
        if name in ("int", "long"):
            return zigzag(self._number(name, logical))
        if name in ("bytes", "string"):
            texts = ["", "a", "\N{LATIN SMALL LETTER A WITH DIAERESIS}", "xyz" * 30, "N\N{GRINNING FACE}"]
            value = self.random.choice(texts).encode() if name == "string" else self._bytes((0, 1, 5, 70))
            return zigzag(len(value)) + value
        if name == "enum":
            return zigzag(self.random.randrange(len(kind["symbols"])))
        if name == "fixed":
            return self.random.randbytes(kind["size"])
        if name in ("float", "double"):
            number = self.random.choice([0.0, -1.5, float("inf"), self.random.uniform(-1e9, 1e9)])
            return struct.pack("<f" if name == "float" else "<d", number)
        return b"" if name == "null" else bytes([self.random.randrange(2)])

    def _bytes(self, sizes: tuple[int, ...]) -> bytes:
        return self.random.randbytes(self.random.choice(sizes))

    def _number(self, name: str, logical: str | None) -> int:
        random = self.random
        if logical:
            return random.choice([0, random.randint(*_TIMES[logical.removeprefix("local-")])])
        bits = 31 if name == "int" else 63
        any_size = random.getrandbits(random.randint(1, bits))
        return random.choice([0, 1, -1, any_size, -any_size, 2**bits - 1, -(2**bits)])

    def _blocks(self, kind: Any) -> bytes:
        out, key = b"", count()
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            items, size = b"", self.random.randint(1, 3)
            for _ in range(size):
                if kind["type"] == "map":
                    items += b"\x04" + b"k%d" % next(key)
                items += self.body(kind["values" if kind["type"] == "map" else "items"])
            is_sized = self.random.random() < 0.4
            out += (zigzag(-size) + zigzag(len(items)) if is_sized else zigzag(size)) + items
        return out + b"\0"

    def mutated(self, body: bytes, other: bytes) -> bytes:
        """Bytes that may be a body or not: cut, flipped, spliced with ``other``, with numbers that are too
        long."""
        random, found = self.random, bytearray(body or b"\0")
        kind, at = random.randrange(8), random.randrange(len(found))
        if kind == 0:
            found[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            del found[at:]
        elif kind == 2:
            found += self._bytes((1, 2, 5))
        elif kind == 3:
            found[at:at] = self._bytes((1, 2, 6))
        elif kind == 4:
            found[at : at + 1] = bytes([found[at] | 128, 0])
        elif kind == 5:
            found[at:] = other[random.randrange(len(other) + 1) :]
        elif kind == 6:
            numbers = [b"\xff" * 9 + b"\1", b"\xff" * 10, b"\x80" * 9 + b"\2", b"\xff" * 4 + b"\x0f"]
            found[at : at + 1] = random.choice([*numbers, b"\xff" * 4 + b"\x1f"])
        else:
            del found[at : at + random.randint(1, 3)]
        return bytes(found)

    def later(self, kind: Any) -> Any:
        """A schema that values of this one can be read with, and fastavro reads them as Avro's rules say."""
        if isinstance(kind, str):
            return self.random.choice([kind, *_PROMOTED.get(kind, ())])
        if isinstance(kind, list):
            return kind
        if kind["type"] == "record":
            kept = [field for field in kind["fields"] if self.random.random() < 0.8]
            fields = [{**field, "type": self.later(field["type"])} for field in kept]
            for field in fields:
                if not isinstance(field["type"], list) and self.random.random() < 0.3:
                    field["type"] = ["null", field["type"]]
                if self.random.random() < 0.2:
                    field["aliases"], field["name"] = [field["name"]], self._name("g")
            for kind_of, default in [(["null", "string"], None), ("int", 7), ("string", "new")]:
                if self.random.random() < 0.3 or not fields:
                    fields.append({"name": self._name("f"), "type": kind_of, "default": default})
            self.random.shuffle(fields)
            return {**kind, "fields": fields}
        if kind["type"] == "enum":
            return {**kind, "symbols": self.random.choice([["A", "B", "C"], ["C", "D", "B", "A"]])}
        inner = {"array": "items", "map": "values"}.get(kind["type"])
        return {**kind, inner: self.later(kind[inner])} if inner else kind


def decoded(
    decoder: AvroDecoder, values: list[bytes | None], header: bytes | None = None
) -> tuple[list[dict[str, Any]], list[str | None]]:
    """Rows and reasons of records, each with this header, of good ones as the reference has them."""
    found = decode(decoder, values, header)
    found.columns.validate(full=True)
    return found.columns.to_pylist(), found.reasons.to_pylist()


def decode(decoder: AvroDecoder, values: list[bytes | None], header: bytes | None = None) -> Decoded:
    headers = [] if header is None else [{"key": b"avro-schema", "value": header}]
    return decoder.decode(pa.array(values, pa.binary()), pa.array([headers] * len(values), HEADERS))


def fields(*types: Any, name: str = "T") -> str:
    """A record's schema with a field a, b, c, … of each type."""
    named = [{"name": chr(97 + n), "type": kind} for n, kind in enumerate(types)]
    return json.dumps({"type": "record", "name": name, "fields": named})
