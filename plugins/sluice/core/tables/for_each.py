"""A step for each of several tables, where the failure of one must not keep the others from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def for_each_table(
    tables: Iterable[str], step: Callable[[str], T], log_exception: Callable[..., object]
) -> dict[str, T]:
    """The result of ``step`` by table. If it fails for one, the others are done, and then the first error is
    raised."""
    done, errors = dict[str, T](), list[Exception]()
    for table in tables:
        try:
            done[table] = step(table)
        except Exception as error:
            log_exception("%s: failed; other tables are not affected", table)
            errors.append(error)
    if errors:
        raise errors[0]
    return done
