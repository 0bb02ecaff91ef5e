"""Types of the fields of JSON objects, by a sample's values: each is one that the decoder of records reads
every value as; a few odd ones are named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.json.columns import columns_of
from sluice.core.decoding.json.document import Number, described
from sluice.core.decoding.json.values import value_of

TEXT, DOUBLE = "STRING", "DOUBLE"
# The first that fits all values is taken; a decimal, if the values have one, before DOUBLE.
_BEFORE_DECIMALS = ("BOOLEAN", "BIGINT")
_BEHIND_DECIMALS = (DOUBLE, "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", TEXT)
_KINDS = ("BOOLEAN", "BIGINT", DOUBLE, TEXT)
# Sums of money have so many decimals; as a number, one loses the zeros at its end.
_SCALES = (2, 3, 4)
_MONEY = re.compile(r"-?(?:0|[1-9][0-9]*)\.([0-9]{2,4})")
_PLAIN = re.compile(r"-?[0-9]+(?:\.([0-9]+))?")
_LIKE_TIME = re.compile(r"\d{4}-\d\d?-\d\d?[T ]\d\d?:\d\d")
# A few: with more of them, a field has two kinds of values.
_MAX_ODD_SHARE = 0.1
_MIN_VALUES = 3
_STAYS = "it stays in _unknown_fields"


@dataclass(frozen=True)
class Value:
    """A field's value, as ``json.document`` has it, and not null. ``place``: of its record."""

    found: Any
    place: str


def type_of(name: str, values: Sequence[Value]) -> tuple[str, str]:
    """The type of a field in Spark's DDL, and what is unsure of it. The type is empty for a field that no
    column takes in nearly each record, the doubt for a sure one."""
    if not values:
        return TEXT, f"{name} is null in each record of the sample: so it is a text"
    decimal, why = _decimal([one.found for one in values])
    candidates = [*_BEFORE_DECIMALS, *([decimal] if decimal else []), *_BEHIND_DECIMALS]
    odd = {ddl: _odd(ddl, values) for ddl in candidates}
    fits = next((ddl for ddl in candidates if not odd[ddl]), "")
    if fits == TEXT:
        return TEXT, _why_text(name, values, odd)
    if fits and fits == decimal:
        return fits, f"{name}: {why}"
    if fits == DOUBLE and (rounded := _rounded([one.found for one in values])):
        return fits, f"{name}: {rounded}: in schema.ddl a DECIMAL of fewer decimals would reject it"
    if fits:
        return fits, ""
    nearly = _nearly(candidates, odd, len(values))
    if not nearly:
        return "", f"{name} is {_kinds(values)}: {_STAYS}"
    return nearly, (
        f"{name}: {_share(nearly, odd[nearly], values)}: such records would be quarantined. Without its line "
        f"in schema.ddl all are rows, and {_STAYS}"
    )


def _odd(ddl: str, values: Iterable[Value]) -> list[Value]:
    """Those that a column of this type has not."""
    (column,) = columns_of({"it": ddl.lower().replace(" ", "")})
    return [one for one in values if not _reads(lambda found: value_of(column, found), one.found)]


def _reads(read: Callable[[Any], Any], found: Any) -> bool:
    try:
        read(found)
    except Malformed:
        return False
    return True


def _nearly(candidates: Iterable[str], odd: dict[str, list[Value]], count: int) -> str:
    """The type that the fewest values are not, if they are a few."""
    best = min(candidates, key=lambda ddl: len(odd[ddl]))
    return best if count >= _MIN_VALUES and len(odd[best]) <= max(1, _MAX_ODD_SHARE * count) else ""


def _share(ddl: str, odd: Sequence[Value], values: Sequence[Value]) -> str:
    first = f"{odd[0].place} has {described(odd[0].found)}"
    others = first if len(odd) == 1 else f"{len(odd)} are not, the first: {first}"
    return f"{len(values) - len(odd)} of {len(values)} values are {ddl}, {others}"


def _why_text(name: str, values: Sequence[Value], odd: dict[str, list[Value]]) -> str:
    """What a person should know of texts that nearly are of another type; empty if they are texts."""
    nearly = _nearly([ddl for ddl in odd if ddl != TEXT], odd, len(values))
    if nearly and odd[nearly]:
        return f"{name}: {_share(nearly, odd[nearly], values)}: so it is a text"
    if all(_LIKE_TIME.match(one.found) for one in values):
        return f"{name} looks like a time ({values[0].found[:40]!r}), of no type of a column: so it is a text"
    return ""


def _decimal(found: Sequence[Any]) -> tuple[str, str]:
    """The DECIMAL that numbers may be, and why a person should look at it; empty if there is none."""
    are_numbers = all(isinstance(one, Number) for one in found)
    matches = [(_PLAIN if are_numbers else _MONEY).fullmatch(str(one)) for one in found]
    scales = {len(match[1] or "") if match else -1 for match in matches}
    if -1 in scales or not (are_numbers or len(scales) == 1):
        return "", ""
    scale, whole = max(scales), max(len(str(one).lstrip("-").split(".")[0]) for one in found)
    precision = 18 if whole + scale <= 18 else 38
    ddl = f"DECIMAL({precision}, {scale})"
    if rounded := _rounded(found):
        return ddl, f"{rounded}: so it is a {ddl}"
    if scale not in _SCALES:
        return "", ""
    what = "numbers" if are_numbers else "texts of numbers"
    return ddl, (
        f"{what} of at most {scale} decimals, as sums of money: so it is a {ddl}, and a record with more "
        f"decimals would be quarantined; {DOUBLE if are_numbers else TEXT} takes it"
    )


def _rounded(found: Sequence[Any]) -> str:
    """The first number that would be another one as a DOUBLE, for a message; empty without."""
    for one in found:
        if isinstance(one, Number) and Decimal(repr(float(one))) != Decimal(one):
            return f"{one[:40]} has more digits than a DOUBLE keeps"
    return ""


def _kinds(values: Sequence[Value]) -> str:
    """What kinds the values are, each with its number and where the first is."""
    firsts = dict[str, list[Value]]()
    for one in values:
        firsts.setdefault(_kind(one), []).append(one)
    if len(firsts) == 1:
        return next(iter(firsts))
    parts = [f"{kind} ({len(of)}, first {of[0].place})" for kind, of in sorted(firsts.items())]
    return " or ".join(parts)


def _kind(value: Value) -> str:
    kind = next((ddl for ddl in _KINDS if not _odd(ddl, [value])), "")
    if kind:
        return kind
    return f"{'a number out of range' if isinstance(value.found, Number) else described(value.found)}"
