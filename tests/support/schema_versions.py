"""Histories of an Avro schema: versions that a table can follow, each made of the one before it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from tests.support.avro_bodies import Chance

_WIDER = {"int": "long", "float": "double"}


class Histories(Chance):
    """A field that is renamed keeps the begin of its name, up to the letter r."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._renamed = count()

    def versions(self, number: int, depth: int = 3) -> list[dict[str, Any]]:
        found = [self.schema(depth)]
        while len(found) < number:
            found.append(self.next_version(found[-1]))
        return found

    def _may(self, chance: float) -> bool:
        return self.random.random() < chance

    def next_version(self, kind: Any) -> Any:
        if isinstance(kind, str):
            return _WIDER.get(kind, kind) if self._may(0.4) else kind
        if isinstance(kind, list):
            several = len([one for one in kind if one != "null"]) > 1
            return kind if several else [self.next_version(one) for one in kind]
        if kind["type"] == "record":
            return self._record(kind)
        if kind["type"] == "enum" and self._may(0.5):
            return {**kind, "symbols": [*kind["symbols"], self._name("S")]}
        if kind.get("logicalType") == "decimal" and kind["type"] == "bytes" and self._may(0.5):
            return {**kind, "precision": min(38, kind["precision"] + self.random.randint(1, 9))}
        if kind.get("logicalType", "").endswith("timestamp-millis") and self._may(0.5):
            return {**kind, "logicalType": kind["logicalType"].replace("millis", "micros")}
        inner = {"array": "items", "map": "values"}.get(kind["type"])
        return {**kind, inner: self.next_version(kind[inner])} if inner else kind

    def _record(self, kind: dict[str, Any]) -> dict[str, Any]:
        fields = []
        for field in kind["fields"]:
            if self._may(0.1):
                continue
            now = {**field, "type": self.next_version(field["type"])}
            if not isinstance(now["type"], list) and self._may(0.2):
                now["type"] = ["null", now["type"]]
            if self._may(0.2):
                now["aliases"] = [*now.get("aliases", []), now["name"]]
                now["name"] = f"{lineage(now['name'])}r{next(self._renamed)}"
            fields.append(now)
        while not fields or self._may(0.3):
            fields.append({"name": self._name("f"), "type": self.type(1)})
        self.random.shuffle(fields)
        return {**kind, "fields": fields}


def lineage(name: str) -> str:
    """The begin of a field's name, which stays."""
    return name.partition("r")[0]


def has_all(row: Any, value: Any, known: Callable[[str], str] = lineage) -> bool:
    """Whether a row has all that a value has, and nulls otherwise; both as plain values. ``known``: what is
    the same of a field's names."""
    if isinstance(row, dict) and isinstance(value, dict):
        mine = {known(name): one for name, one in row.items()}
        own = {known(name): one for name, one in value.items()}
        is_there = len(mine) == len(row) and own.keys() <= mine.keys()
        return is_there and all(
            has_all(one, own[name], known) if name in own else one is None for name, one in mine.items()
        )
    if isinstance(row, list) and isinstance(value, list):
        return len(row) == len(value) and all(has_all(*two, known) for two in zip(row, value, strict=True))
    if isinstance(row, float) and isinstance(value, float):
        return row == value or (row != row and value != value)
    return bool(row == value)
