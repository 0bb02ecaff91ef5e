"""The columns of a table, as a stream that is not Avro declares them: ``schema.ddl``."""

from __future__ import annotations

import re

from sluice.model.spec.config import ConfigError

# What Spark and Iceberg both know, so that a table never has another type than was declared.
TYPES = (
    "boolean", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz",
)  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")
# Sluice's own columns begin like this.
_OURS = ("_kafka_", "_source_")


def parse_ddl(text: str, where: str = "schema.ddl") -> dict[str, str]:
    """Column -> Spark type in lower case, in the order in which they are declared.

    One column per line, ``name TYPE``; ``--`` begins a comment; a comma at the end is allowed. Types are
    those of TYPES, and ``decimal(p, s)``. Raises ConfigError, naming the line, for anything else: a name that
    is not in lower case, or there twice, or one of Sluice's own, an unknown type, no column at all.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        declared = line.split("--", 1)[0].strip().removesuffix(",").strip()
        if not declared:
            continue
        name, kind = (*declared.split(None, 1), "")[:2]
        place = f"{where} line {number}"
        if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
            raise ConfigError(f"{place}: column {name!r}: use lower-case letters, digits and _")
        if name.startswith(_OURS):
            raise ConfigError(f"{place}: column {name!r}: names in {' and '.join(_OURS)} are Sluice's own")
        if name in found:
            raise ConfigError(f"{place}: column {name!r} is there twice")
        found[name] = _type(kind.strip().lower(), f"{place}: column {name!r}")
    if not found:
        raise ConfigError(f"{where}: no column; write one per line, as name TYPE")
    return found


def _type(kind: str, where: str) -> str:
    decimal = _DECIMAL.fullmatch(kind)
    if decimal and 1 <= int(decimal[1]) <= 38 and int(decimal[2]) <= int(decimal[1]):
        return f"decimal({decimal[1]},{decimal[2]})"
    if kind not in TYPES:
        raise ConfigError(
            f"{where}: type {kind.upper() or 'missing'}: use one of {', '.join(TYPES)}, decimal(p, s)"
        )
    return kind
