"""The processes that tests and drills signal."""

from __future__ import annotations

import pytest

from tests.support.processes import process_tree


def test_no_drill_and_no_test_signals_all_of_the_machine() -> None:
    """The parent of process 1 is 0, which is also the pid of a program that is not running."""
    with pytest.raises(ValueError, match="process 1"):
        process_tree(1)
    assert process_tree(0) == []
