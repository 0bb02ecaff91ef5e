"""Names of writers, and the epochs in them."""

from __future__ import annotations

import pytest

from sluice.core.tables.writers import epoch_of, next_epoch, writer_name


def test_two_writers_of_one_epoch_have_two_names() -> None:
    names = {writer_name(7) for _ in range(20)}
    assert len(names) == 20
    assert set(map(epoch_of, names)) == {7}


@pytest.mark.parametrize(
    ("name", "epoch"),
    [("w7", 7), ("w12_0af3", 12), ("main", 0), ("w7-backup", 0), ("w7_", 0), ("w_1", 0), ("xw7_1", 0)],
)
def test_the_epoch_in_a_name(name: str, epoch: int) -> None:
    assert epoch_of(name) == epoch


def test_the_next_epoch_is_above_all_that_are_known() -> None:
    assert next_epoch(0, []) == 1
    assert next_epoch(3, ["main", "w2_a"]) == 4
    assert next_epoch(3, ["w9_a", "w4"]) == 10
    assert next_epoch(3, ["w4"], at_least=8) == 8
