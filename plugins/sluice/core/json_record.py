"""Frozen dataclasses to and from JSON: events of triggers, results of tasks."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
# A JSON object, as the ledger keeps it.
Document = dict[str, Any]


class JsonRecord:
    """A base for dataclasses; dicts keyed by numbers and nested dataclasses are restored."""

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = _adapter(cast("Any", type(self))).dump_python(self, mode="json")
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Raises ValueError for data of another form."""
        record: Self = _adapter(cast("Any", cls)).validate_python(data)
        return record


def parse_json(cls: type[T], text: str | bytes) -> T:
    """A dataclass from JSON of exactly its types; unknown keys are ignored, so that an older reader
    understands a newer writer. Numbers are finite. Raises ValueError naming the key and the value."""
    from pydantic import ValidationError

    try:
        record = cast("T", _adapter(cast("Any", cls)).validate_json(text, strict=True))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(key) for key in first["loc"])
        message = f"{first['msg']}, got {repr(first['input'])[:100]}"
        raise ValueError(f"{where}: {message}" if where else message) from error
    # JSON has no such numbers, but pydantic takes NaN, Infinity and 1e999.
    json.loads(text, object_pairs_hook=_check_finite, parse_int=float)
    return record


def _check_finite(pairs: list[tuple[str, Any]]) -> None:
    for key, value in pairs:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{key}: Input should be a finite number, got {value}")


@cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    # Not at the top: Spark's Python workers and feeds import the model and need no pydantic.
    from pydantic import TypeAdapter

    return TypeAdapter(cls)
