"""Errors by their kind and the data that they name, whatever their words are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

E = TypeVar("E", bound=BaseException)


@contextmanager
def raising(kind: type[E], *data: object) -> Iterator[pytest.ExceptionInfo[E]]:
    """Expects an error of this kind that names each of ``data``, in whatever words: names, numbers, keys."""
    with pytest.raises(kind) as caught:
        yield caught
    missing = [str(datum) for datum in data if str(datum) not in str(caught.value)]
    assert not missing, f"{caught.value!r} does not name {missing}"
