"""A condition on rows as SQL, over the columns of :mod:`sql_schema`."""

from __future__ import annotations

from typing import Any

from pyiceberg.expressions import BooleanExpression, BoundTerm
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, visit
from pyiceberg.types import (
    DateType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from sluice.clients.lake.reading.sql_schema import column

# What Iceberg has as a number, in SQL.
_OF_NUMBER: dict[type[IcebergType], str] = {
    IntegerType: "({})::integer",
    LongType: "({})::bigint",
    DateType: "(date '1970-01-01' + ({})::integer)",
    TimestampType: "make_timestamp(({})::bigint)",
    TimestamptzType: "make_timestamptz(({})::bigint)",
}
_FLOATS = (FloatType, DoubleType)


def condition(rows: BooleanExpression) -> tuple[str, list[Any]]:
    """SQL that is true of the rows of which PyArrow's filter is, and its parameters. ``rows``: bound to a
    schema. Raises NotImplementedError for a type that no condition of Sluice has."""
    visitor = _Condition()
    return visit(rows, visitor), visitor.parameters


class _Condition(BoundBooleanExpressionVisitor[str]):
    """``parameters``: $1 and the others, of its results."""

    def __init__(self) -> None:
        self.parameters: list[Any] = []

    def _value(self, term: BoundTerm, value: Any) -> str:
        kind = term.ref().field.field_type
        if type(kind) in _OF_NUMBER:
            return _OF_NUMBER[type(kind)].format(int(value))
        if not isinstance(kind, StringType | FloatType | DoubleType):
            raise NotImplementedError(f"no condition on {term.ref().field.name!r}, which is {kind}")
        self.parameters.append(value)
        return f"${len(self.parameters)}"

    def _compared(self, term: BoundTerm, sign: str, literal: Literal[Any]) -> str:
        compared = f"{_name(term)} {sign} {self._value(term, literal.value)}"
        # DuckDB has NaN above all numbers; it compares with none.
        is_number = isinstance(term.ref().field.field_type, _FLOATS) and sign[0] == ">"
        return f"({compared} and not isnan({_name(term)}))" if is_number else f"({compared})"

    def visit_in(self, term: BoundTerm, literals: set[Any]) -> str:
        values = ", ".join(self._value(term, value) for value in sorted(literals))
        return f"({_name(term)} in ({values}))"

    def visit_not_in(self, term: BoundTerm, literals: set[Any]) -> str:
        return f"(not coalesce({self.visit_in(term, literals)}, false))"

    def visit_is_nan(self, term: BoundTerm) -> str:
        return f"isnan({_name(term)})"

    def visit_not_nan(self, term: BoundTerm) -> str:
        return f"(not isnan({_name(term)}))"

    def visit_is_null(self, term: BoundTerm) -> str:
        return f"({_name(term)} is null)"

    def visit_not_null(self, term: BoundTerm) -> str:
        return f"({_name(term)} is not null)"

    def visit_equal(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return self._compared(term, "=", literal)

    def visit_not_equal(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return self._compared(term, "<>", literal)

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return self._compared(term, ">=", literal)

    def visit_greater_than(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return self._compared(term, ">", literal)

    def visit_less_than(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return self._compared(term, "<", literal)

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return self._compared(term, "<=", literal)

    def visit_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return f"starts_with({_name(term)}, {self._value(term, literal.value)})"

    def visit_not_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> str:
        return f"(not {self.visit_starts_with(term, literal)})"

    def visit_true(self) -> str:
        return "true"

    def visit_false(self) -> str:
        return "false"

    def visit_not(self, child_result: str) -> str:
        return f"(not {child_result})"

    def visit_and(self, left_result: str, right_result: str) -> str:
        return f"({left_result} and {right_result})"

    def visit_or(self, left_result: str, right_result: str) -> str:
        return f"({left_result} or {right_result})"


def _name(term: BoundTerm) -> str:
    return column(term.ref().field.field_id)
