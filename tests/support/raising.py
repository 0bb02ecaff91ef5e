"""What an error must tell: its type, and the names, numbers and keys in its text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def raises(kind: type[BaseException], *data: object) -> Iterator[None]:
    """Fails unless the body raises ``kind``, with each of ``data`` in its text, whatever the words around."""
    with pytest.raises(kind) as caught:
        yield
    text = str(caught.value)
    missing = [str(datum) for datum in data if str(datum) not in text]
    assert not missing, text
