"""One drill on the stack of the other tests: what drills are made of works. All of them: `tests/drills`."""

from __future__ import annotations

import pytest

from local.progress import ProgressDisplay
from sluice.core.tables.writers import epoch_of
from tests.drills.drill import is_healthy
from tests.drills.faults import DRILLS
from tests.drills.runner import run
from tests.integration.rig import Rig
from tests.integration.supervision import open_transaction, supervise


@pytest.mark.exhaustive
def test_a_consumer_killed_between_stage_and_publish_is_restarted_by_the_runtime_and_nothing_is_lost(
    rig: Rig,
) -> None:
    open_transaction(rig)
    rig.ensure_stream()
    rig.wait_for_everything()
    newest = rig.history.latest("health")
    if newest is None or not is_healthy(newest):
        # No schedule says meanwhile that it is well again, and a drill waits for that.
        supervise(rig)
    epoch = rig.epoch()
    with ProgressDisplay() as board:
        record = run(DRILLS["consumer_killed"], rig, board, trigger_immediately=True, load=False)
    assert record.passed, record.failures
    assert (record.records, record.restarts) == ((0, 0), 1)
    assert record.detected_by.startswith("the runtime (signal 9")
    assert record.sent > 0
    assert None not in (record.detected_at, record.recovered_at)
    assert rig.epoch() == epoch + 1
    assert epoch not in map(epoch_of, rig.unpublished()), "its successor removed the killed batch's branch"
    rig.assert_exact()
