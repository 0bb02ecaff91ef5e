"""Ten versions of a schema, some of which no table can follow, and records of each."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

CITY = {"name": "city", "type": "string"}
SKU = {"name": "sku", "type": "string"}


def decimal(precision: int, scale: int = 2) -> Any:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def schema(**fields: Any) -> str:
    """By name: a type, or a whole field."""
    found = [
        {"name": name, **kind}
        if isinstance(kind, dict) and "aliases" in kind | {}
        else {"name": name, "type": kind}
        for name, kind in fields.items()
    ]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": found})


def address(*more: Any) -> Any:
    return {"type": "record", "name": "Address", "fields": [CITY, *more]}


def lines(*more: Any) -> Any:
    return {"type": "array", "items": {"type": "record", "name": "Line", "fields": [SKU, *more]}}


V1: dict[str, Any] = {
    "id": "long",
    "number": "int",
    "amount": decimal(9),
    "address": address(),
    "lines": lines(),
    "rates": {"type": "map", "values": "float"},
    "note": "string",
}
V2 = V1 | {
    "channel": "string",
    "address": address({"name": "zip", "type": "int"}),
    "lines": lines({"name": "count", "type": "int"}),
}
V3 = V2 | {"number": "long", "amount": decimal(20), "rates": {"type": "map", "values": "double"}}
V4 = V3 | {"note": ["null", "string"]}
V5 = {name: kind for name, kind in V4.items() if name != "note"} | {
    "remark": {"type": ["null", "string"], "aliases": ["note"]}
}
V6 = {name: kind for name, kind in V5.items() if name != "number"}
V7 = V6 | {"amount": decimal(20, 3)}
V8 = V6 | {
    "payment": {
        "type": "record",
        "name": "Payment",
        "fields": [{"name": "parts", "type": {"type": "map", "values": "long"}}],
    },
    "paid_at": {"type": "long", "logicalType": "timestamp-micros"},
}
V9 = V8 | {"CHANNEL": "string"}
V10 = V8 | {
    "address": address(
        {"name": "zip", "type": "long"}, {"name": "lines", "type": {"type": "array", "items": "string"}}
    )
}
VERSIONS: tuple[dict[str, Any], ...] = (V1, V2, V3, V4, V5, V6, V7, V8, V9, V10)
# Version, from 1 -> why the table cannot follow it.
REFUSED = {
    7: "amount: the table has decimal(20, 2), the schema decimal(20, 3)",
    9: "CHANNEL: the table has channel, the schema CHANNEL, which differs in case only",
}


def value(version: int, number: int) -> dict[str, Any]:
    """A record of a version, from 1."""
    large = version >= 3
    every: dict[str, Any] = {
        "id": number,
        "number": 2**40 + number if large else number,
        "amount": Decimal(12_345_678_901 if large else 12_345).scaleb(-3 if version == 7 else -2),
        "address": {"city": "Oslo", "zip": 2**40 if version == 10 else 150, "lines": ["a", "b"]},
        "lines": [{"sku": f"s{number}", "count": 2}, {"sku": "t", "count": 3}],
        "rates": {"a": 0.1 if large else 0.5, "b": 2.0},
        "note": "n" if version < 4 or number % 2 else None,
        "remark": "r" if number % 2 else None,
        "channel": "web",
        "payment": {"parts": {"card": 2**50}},
        "paid_at": datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC),
        "CHANNEL": "x",
    }
    return {name: every[name] for name in VERSIONS[version - 1]}


def column(name: str) -> str:
    """The column in which a field is."""
    return {"remark": "note"}.get(name, name)
