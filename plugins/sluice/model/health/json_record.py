"""Frozen dataclasses that go through JSON: events of triggers, results of tasks."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Self, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class JsonRecord:
    """A base for dataclasses; dicts keyed by numbers and nested dataclasses come back as they were."""

    def to_json(self) -> dict[str, Any]:
        """Return JSON's types only."""
        data: dict[str, Any] = _adapter(cast("Any", type(self))).dump_python(self, mode="json")
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Raises ValueError for data of another form."""
        record: Self = _adapter(cast("Any", cls)).validate_python(data)
        return record


@cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    # Imported at the first use: Spark's Python workers and feeds load the model, and use none of this.
    from pydantic import TypeAdapter

    return TypeAdapter(cls)
