"""Frozen dataclasses to and from JSON: events of triggers, results of tasks."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


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
    understands a newer writer. Raises ValueError naming the key and the value."""
    from pydantic import ValidationError

    try:
        return cast("T", _adapter(cast("Any", cls)).validate_json(text, strict=True))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(key) for key in first["loc"])
        message = f"{first['msg']}, got {repr(first['input'])[:100]}"
        raise ValueError(f"{where}: {message}" if where else message) from error


@cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    # Not at the top: Spark's Python workers and feeds import the model and need no pydantic.
    from pydantic import TypeAdapter

    return TypeAdapter(cls)
