"""A schema as its JSON has it: what readers use of it, and what it says of a type's meaning."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from sluice.core.decoding.avro.names import NAMED, RECORDS

# What of a writer's schema its readers use; and what fastavro needs of that, which refuses some of the rest.
_USED = frozenset({"type", "name", "namespace", "fields", "symbols", "items", "values", "size"})
# Connect's name of a type, and what a followed schema has of a meaning that has no logical type here.
MEANING = "connect.name"
_MEANING = frozenset({"logicalType", "precision", "scale", MEANING})
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_KINDS = PRIMITIVES | NAMED | {"array", "map"}
# A name that others gave, and digits of a decimal, as a message may have them.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_NOTE = re.compile(rf"{_NAME.pattern}|decimal\(-?[0-9]{{1,9}}, -?[0-9]{{1,9}}\)")
_ALIASES = "aliases"
_DIGITS = re.compile(r"-?[0-9]{1,9}|None")


def form(text: str, *, aliases: bool = False) -> str:
    """What readers use of a writer's schema, as JSON: the same for schemas that differ in docs, aliases and
    defaults. ``aliases``: not for those that differ in aliases, from which a table knows what was renamed.
    Raises ValueError for what is not JSON."""
    tree = json.loads(text)
    found = used(tree) if aliases else _only(tree, _USED | _MEANING)
    return json.dumps(found, sort_keys=True, ensure_ascii=False)


def used(tree: Any) -> Any:
    """What readers, and tables that follow it, use of a writer's schema."""
    return _with_names(_only(tree, _USED | _MEANING | {_ALIASES}))


def without_meaning(tree: Any) -> Any:
    """What a schema's canonical form is made of, and nothing that is refused though that has none of it."""
    return _only(tree, _USED)


def without_braces(tree: Any) -> Any:
    """A type, without braces around types that have their own, or a name: ``{"type": {"type": "int"}}``."""
    if isinstance(tree, list):
        return [without_braces(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    kind = tree["type"]
    if not isinstance(kind, str) or kind not in _KINDS:
        return without_braces(kind)
    inner = {
        key: without_braces(tree[key])
        for key in ("items", "values")
        if kind in ("array", "map") and key in tree
    }
    if kind in RECORDS:
        inner["fields"] = [{**one, "type": without_braces(one["type"])} for one in tree["fields"]]
    return {**tree, **inner}


def _only(tree: Any, keys: frozenset[str]) -> Any:
    if isinstance(tree, list):
        return [_only(one, keys) for one in tree]
    return {key: _only(tree[key], keys) for key in keys & tree.keys()} if isinstance(tree, dict) else tree


def _with_names(tree: Any) -> Any:
    """Without aliases that are none: others make the schemas, and no reader needs them."""
    if isinstance(tree, list):
        return [_with_names(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    found = {key: _with_names(one) for key, one in tree.items() if key != _ALIASES}
    given = tree.get(_ALIASES)
    given = given if isinstance(given, list) else []
    names = [one for one in given if isinstance(one, str) and _NAME.fullmatch(one)]
    return {**found, _ALIASES: names} if names else found


def digits(tree: Mapping[str, Any], kind: str) -> tuple[int, int]:
    """Precision and scale of a decimal; zeros for a type that is none. One with other digits than Avro's
    specification allows is none."""
    precision, scale = tree.get("precision"), tree.get("scale", 0)
    if tree.get("logicalType") != "decimal" or type(precision) is not int or type(scale) is not int:
        return 0, 0
    is_one = kind == "bytes" or (kind == "fixed" and precision <= (8 * int(tree["size"]) - 1) * math.log10(2))
    return (precision, scale) if is_one and precision > 0 and 0 <= scale <= precision else (0, 0)


def note(tree: Mapping[str, Any]) -> str:
    """What a schema says of a type's meaning beside what it is: Connect's name for it, as of
    ``io.debezium.time.Timestamp``, or a logical type."""
    logical, name = tree.get("logicalType"), tree.get(MEANING)
    if logical == "decimal":
        parts = str(tree.get("precision")), str(tree.get("scale", 0))
        return f"decimal({', '.join(parts)})" if all(map(_DIGITS.fullmatch, parts)) else logical
    found = name if isinstance(name, str) else logical
    return found if isinstance(found, str) and _NOTE.fullmatch(found) else ""
