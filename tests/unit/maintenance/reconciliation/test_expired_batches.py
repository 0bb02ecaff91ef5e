"""Files of batches whose snapshots have expired are known by the batch log, and not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.core.findings import FindingName
from tests.support.reconciliation import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A verified batch."""
    made = World(tmp_path)
    made.batch()
    made.run()
    return made


def test_a_recorded_batch_is_not_read(world: World) -> None:
    world.batch()
    world.batch()
    world.record()
    world.expire()
    found = world.run()
    assert "12 offsets, each once" in found["result"]
    assert (found["files"], found["read"]) == (2, 0)


def test_one_whose_record_does_not_have_its_files_offsets_is_found(world: World) -> None:
    world.batch(lie=1)
    world.batch()
    world.record()
    world.expire()
    world.finds(FindingName.RANGE_WRONG)


def test_one_without_a_record_is_read(world: World) -> None:
    """As a commit of another program, which it may be."""
    world.is_managed = True
    world.batch()
    world.batch()
    world.expire()
    found = world.run()
    assert (found["files"], found["read"]) == (2, 1)
    assert "neither a recorded batch nor of a verified rewrite" in found["notes"][0]
