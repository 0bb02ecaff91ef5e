"""Steps without a stack: what Airflow gives them, their ledger, and the errors that they end with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

from sluice.clients.ledger import Ledger
from sluice.operators.validate import ValidateOperator
from tests.support.memory_s3 import MemoryS3

if TYPE_CHECKING:
    from airflow.sdk import Context
    from pyiceberg.table import Table

E = TypeVar("E", bound=Exception)


@contextmanager
def raising(kind: type[E], *data: object) -> Iterator[pytest.ExceptionInfo[E]]:
    """Expects an error of this kind that names each of ``data``, in whatever words: names, numbers, keys."""
    with pytest.raises(kind) as caught:
        yield caught
    missing = [str(datum) for datum in data if str(datum) not in str(caught.value)]
    assert not missing, f"{caught.value!r} does not name {missing}"


def given(**values: Any) -> Context:
    """A task's context, of which a step needs these."""
    return cast("Context", values)


class ValidateRows(ValidateOperator):
    """The validation of a table of which the tests make few columns."""

    def wrong_columns(self, table: Table) -> list[str]:
        return []


def ledger(stream: str, memory: MemoryS3 | None = None) -> Ledger:
    """A stream's ledger in memory."""
    return Ledger((memory or MemoryS3()).as_client(), "s3://w/ledger", stream)
