"""What is raised, judged by its kind and by the data that it names: not by how it says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

Raised = TypeVar("Raised", bound=BaseException)


@contextmanager
def naming(kind: type[Raised], *data: str) -> Iterator[pytest.ExceptionInfo[Raised]]:
    """The block raises a ``kind`` whose text has all of these names, numbers or keys in it."""
    with pytest.raises(kind) as caught:
        yield caught
    text = str(caught.value)
    lacking = [word for word in data if word not in text]
    assert not lacking, f"{lacking} not in: {text}"
