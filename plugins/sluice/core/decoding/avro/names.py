"""Names of the types that an Avro schema defines: https://avro.apache.org/docs/1.12.0/specification/#names"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

NAMED = frozenset({"record", "error", "enum", "fixed"})
RECORDS = frozenset({"record", "error"})


def full_name(tree: Mapping[str, Any], namespace: str) -> str:
    """The name of a definition, or of a use (``name`` alone), with its namespace."""
    return qualified(tree["name"], tree.get("namespace", namespace))


def qualified(name: str, namespace: str) -> str:
    """A name with a namespace, unless it has its own."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def namespace_of(full: str) -> str:
    """The namespace of a full name, which the names inside of its definition have."""
    return full.rpartition(".")[0]


def definitions(tree: Any, namespace: str = "") -> Iterator[tuple[str, Any]]:
    """(full name, definition) of all types that a schema defines. Raises KeyError for what is no schema."""
    if isinstance(tree, list):
        for branch in tree:
            yield from definitions(branch, namespace)
    elif isinstance(tree, dict):
        kind = tree["type"]
        if not isinstance(kind, str):
            yield from definitions(kind, namespace)
        elif kind in NAMED:
            full = full_name(tree, namespace)
            yield full, tree
            for field in tree["fields"] if kind in RECORDS else ():
                yield from definitions(field["type"], namespace_of(full))
        elif kind in ("array", "map"):
            yield from definitions(tree["items" if kind == "array" else "values"], namespace)


def is_recursive(tree: Any, namespace: str = "", outer: tuple[str, ...] = ()) -> bool:
    """Whether a schema uses the name of a record within its definition. Raises KeyError for what is no
    schema."""
    if isinstance(tree, list):
        return any(is_recursive(branch, namespace, outer) for branch in tree)
    if isinstance(tree, str):
        return tree in outer or qualified(tree, namespace) in outer
    if not isinstance(tree, dict):
        return False
    kind = tree["type"]
    if kind in ("array", "map"):
        return is_recursive(tree["items" if kind == "array" else "values"], namespace, outer)
    if kind not in RECORDS:
        return False
    full = full_name(tree, namespace)
    return any(is_recursive(one["type"], namespace_of(full), (*outer, full)) for one in tree["fields"])
