"""How long schemas are made ready for use."""

from __future__ import annotations

from contextlib import suppress

from sluice.core.registry.errors import NotPrepared, RefusedSchema
from sluice.core.registry.preparing import MAX_SCHEMAS, MAX_SECONDS, MAX_SIZE, PreparationBudget
from tests.support.raising import raising


class Work:
    """What takes ``seconds``, and a clock."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds, self.done = 1000.0, seconds, 0

    def clock(self) -> float:
        return self.now

    def __call__(self) -> str:
        self.now += self.seconds
        self.done += 1
        return "made"


def times(budget: PreparationBudget, work: Work, size: int | None = None) -> int:
    """How often it is done until there is no time for it."""
    before = work.done
    with suppress(NotPrepared):
        while work.done < 100 * MAX_SCHEMAS:
            budget.run("schema id 7", work, size)
    return work.done - before


def test_slow_ones_have_the_seconds_and_then_their_share() -> None:
    work = Work(10)
    budget = PreparationBudget(work.clock)
    # The last one begins before the seconds are over.
    assert times(budget, work) == MAX_SECONDS / 10
    words = "1000, or have 16 MiB, or took 60 seconds"
    with raising(NotPrepared, "schema id 7 was not made ready", words, "retry_quarantine"):
        budget.run("schema id 7", work)
    work.now += 3
    assert times(budget, work) == 1
    work.now += 30
    assert times(budget, work) == 0
    work.now += 10
    assert times(budget, work) == 1
    # Time that nothing took is not saved up beyond it.
    work.now += 1_000_000
    assert times(budget, work) == MAX_SECONDS / 10


def test_quick_ones_are_counted() -> None:
    work = Work(0)
    budget = PreparationBudget(work.clock)
    assert abs(times(budget, work, 5) - MAX_SCHEMAS) <= 1
    work.now += 24
    assert abs(times(budget, work, 5) - 100) <= 1


def test_large_ones_are_measured() -> None:
    work = Work(0)
    assert times(PreparationBudget(work.clock), work, MAX_SIZE // 8) == 8


def test_parts_of_one_that_is_ready_take_their_time_and_nothing_else() -> None:
    work = Work(0)
    budget = PreparationBudget(work.clock)
    for _ in range(10 * MAX_SCHEMAS):
        assert budget.run("it", work) == "made"
    work.seconds = MAX_SECONDS
    budget.run("it", work)
    assert times(budget, work) == 0


def test_what_fails_has_taken_its_time() -> None:
    work = Work(MAX_SECONDS)
    budget = PreparationBudget(work.clock)

    def fails() -> None:
        work()
        raise RefusedSchema("no")

    with raising(RefusedSchema, "no"):
        budget.run("it", fails)
    assert times(budget, work) == 0
