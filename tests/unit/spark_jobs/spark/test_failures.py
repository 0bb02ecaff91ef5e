"""Which writer is fenced."""

from __future__ import annotations

import pytest

from spark_jobs.common.spark.failures import Fenced, check_epoch
from tests.support.raising import raising


@pytest.mark.parametrize(
    ("newest", "opening", "is_fenced"),
    [
        (None, True, False),
        (4, True, False),
        (5, False, False),
        # A restored catalog issues an epoch again.
        (5, True, True),
        (6, False, True),
        (6, True, True),
    ],
)
def test_an_epoch_that_is_there_before_its_writer_is_another_one_s(
    newest: int | None, opening: bool, is_fenced: bool
) -> None:
    if not is_fenced:
        check_epoch("hits", 5, newest, "group g", opening=opening)
        return
    with raising(Fenced, "hits", "writer epoch 5", "group g") as caught:
        check_epoch("hits", 5, newest, "group g", opening=opening)
    # run.raise_above acquires the lease above it.
    assert caught.value.epoch == newest
