"""What a column's numbers mean where its type alone does not say it, as milliseconds or days: a logical type
that has no column of its own, Connect's name of a type, or what was sent into a column of plain numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sluice.core.decoding.avro.types import Type

_NUMBERS, _BYTES = frozenset({"int", "long", "float", "double"}), frozenset({"bytes", "fixed"})
_PRECISION = re.compile(r"(decimal\()-?[0-9]+, ")


def with_meaning(column: Type, sent: Type) -> Type:
    """A column whose meaning is not known has what is first known of it. Neither is a union."""
    return replace(column, note=_said(sent)) if _is_open(column, sent) and not column.note else column


def is_other(columns: Sequence[Type], sent: Type) -> bool:
    """Whether numbers that are sent have another meaning than those of the types, none of them a union, that
    they may become. Columns with a logical type are none of these: they have no other numbers."""
    open_ones = [one for one in columns if _is_open(one, sent)]
    # They become those of their own kind first.
    same = [one for one in open_ones if one.kind == sent.kind]
    return any(one.note and _unit(one.note) != _unit(_said(sent)) for one in same or open_ones)


def _is_open(column: Type, sent: Type) -> bool:
    """Whether the column has the numbers as they are sent, and these have a meaning."""
    is_one_kind = any(column.kind in kinds and sent.kind in kinds for kinds in (_NUMBERS, _BYTES))
    return is_one_kind and not column.logical and bool(_said(sent))


def _said(kind: Type) -> str:
    if kind.logical == "decimal":
        return f"decimal({kind.digits[0]}, {kind.digits[1]})"
    return kind.logical or kind.note


def _unit(note: str) -> str:
    """Decimals of one scale are the same numbers."""
    return _PRECISION.sub(r"\1", note)
