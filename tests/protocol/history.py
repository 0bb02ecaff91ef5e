"""A history: steps that Hypothesis chooses, and what each does to a world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from greenlet import GreenletExit
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from sluice.core.offsets.ranges import offsets_from_json
from sluice.core.tables import writers
from spark_jobs.common.lake.iceberg import MAIN
from spark_jobs.common.lake.writer_lease import ConcurrentCommit
from spark_jobs.common.spark.failures import Fenced, Unrecoverable
from tests.protocol.catalog import AnswerLost
from tests.protocol.kafka import KINDS
from tests.protocol.processes import compact, consume, reject_rows
from tests.protocol.reader import QUARANTINE, STREAM, Violation, require
from tests.protocol.world import Process, World

CALLS = 200
MAX_ALIVE = 5
# Above any constant in a module: Hypothesis tries those that are loaded and in range, and a search would
# then be another one beside other tests.
FIRST = 7_300_000_019
# Errors with a message of their own, after which the runtime starts the process again or a user decides.
NAMED = (Fenced, ConcurrentCommit, LookupError, RuntimeError, PySparkException)


class Step(NamedTuple):
    name: str
    a: int
    b: int


def _process(world: World, number: int) -> Process | None:
    alive = world.alive
    return alive[number % len(alive)] if alive else None


def go(world: World, a: int, b: int) -> None:
    """Some calls of one process; the others are suspended."""
    process = _process(world, a)
    for _ in range((1, 2, 3, 5, 8, 13, 21, 34)[b % 8]):
        if process and process.is_alive:
            process.step()


def until_commit(world: World, a: int, b: int) -> None:
    """Up to the b-th commit of one process, which it has not made."""
    process = _process(world, a)
    for _ in range(b + 1):
        for _ in range(CALLS):
            if not process or not process.is_alive:
                return
            process.step()
            if process.at.startswith(("commit ", "append ")):
                break
            if process.at == "idle":
                return


def finish(world: World, a: int, b: int) -> None:
    """Until the process waits for records, or has ended."""
    process = _process(world, a)
    for _ in range(CALLS):
        if process and process.is_alive:
            process.step()
            if process.at == "idle":
                return


def start(world: World, a: int, b: int) -> None:
    """The stream's consumer again, if it has ended."""
    if not world.alive:
        start_another(world, a, b)


def start_another(world: World, a: int, b: int) -> None:
    """One more: the others are hung, or cut off from who starts it."""
    if len(world.alive) < MAX_ALIVE:
        world.start("consumer", partial(consume, schema=b % 2))


def start_compaction(world: World, a: int, b: int) -> None:
    if len(world.alive) < MAX_ALIVE:
        world.start("compaction", compact)


def kill(world: World, a: int, b: int) -> None:
    if process := _process(world, a):
        process.throw(GreenletExit())


def lose_answer(world: World, a: int, b: int) -> None:
    """The call has failed, or was made and its answer is lost; some of those Iceberg repeats."""
    if (process := _process(world, a)) and process.at != "start":
        world.note(f"{process.name}: no answer at {process.at}")
        process.throw((AnswerLost if b % 2 else PySparkException)("no answer"))


def _partition(world: World, number: int) -> int:
    """The newest more often."""
    partitions = len(world.topic.partitions)
    return partitions - 1 - number % partitions


def produce(world: World, a: int, b: int) -> None:
    record = world.topic.produce(_partition(world, a), KINDS[b % 3])
    world.note(f"topic: {record.kind} record at {record.place}")


def produce_version(world: World, a: int, b: int) -> None:
    """A record of a version of the schema: a new one, or one that was there before."""
    version = min(b % 4, world.topic.versions + 1)
    world.topic.versions = max(world.topic.versions, version)
    record = world.topic.produce(_partition(world, a), f"v{version}" if version else KINDS[0])
    world.note(f"topic: record of version {version} at {record.place}")


def restore(world: World, a: int, b: int) -> None:
    """Both tables as they were some commits ago."""
    moments = world.catalog.moments
    moment = moments[max(0, len(moments) - 2 - a * 3 - b)]
    # A batch was in flight: its writer may publish it, and what it staged since is gone.
    heads = set(moment[STREAM].refs.values())
    world.restored = True
    world.tables_may_differ |= len(heads) > 1
    world.catalog.restore(moment, f"restored to where main was {moment[STREAM].refs.get(MAIN)}")


def restore_one(world: World, a: int, b: int) -> None:
    """One of the tables as it was some commits ago, also in a line that a restore ended."""
    table = (STREAM, QUARANTINE)[b % 2]
    moments = world.catalog.moments
    world.restored = world.tables_may_differ = True
    earlier = moments[max(0, len(moments) - 2 - a * 3 - b // 2)][table]
    world.catalog.restore({table: earlier}, f"restored alone to where main was {earlier.refs.get(MAIN)}")


def expire(world: World, a: int, b: int) -> None:
    """Expire the quarantine but for its newest count; a stream's table expires with its publishes."""
    line = list(world.catalog.tables[QUARANTINE].ancestors(MAIN))
    needed = next((n for n, s in enumerate(line) if "sluice.rejected" in s.summary), len(line))
    world.catalog.expire(QUARANTINE, max(1 + a % 3, needed + 1))


def retain(world: World, a: int, b: int) -> None:
    """Retention deletes records."""
    number = _partition(world, a)
    partition = world.topic.partitions[number]
    partition.begin = min(partition.begin + b + 1, len(partition.records))
    world.note(f"topic: retention deleted up to {partition.begin} of {number}")


def recreate(world: World, a: int, b: int) -> None:
    world.topic.recreate()
    world.note(f"topic: recreated as {world.topic.id}")


def widen(world: World, a: int, b: int) -> None:
    if len(world.topic.partitions) < 4:
        world.topic.widen()
        world.note("topic: a partition was added")


def start_producer(world: World, a: int, b: int) -> None:
    if len(world.alive) < MAX_ALIVE:
        world.start("producer", partial(reject_rows, number=1 + b % 2))


# With the frequency of each.
STEPS: dict[Callable[[World, int, int], None], int] = {
    go: 6,
    until_commit: 6,
    finish: 8,
    start: 3,
    start_another: 4,
    produce: 10,
    produce_version: 3,
    kill: 2,
    lose_answer: 2,
    restore: 2,
    restore_one: 1,
    start_compaction: 1,
    expire: 1,
    retain: 2,
    recreate: 1,
    widen: 2,
    start_producer: 2,
}
BY_NAME = {step.__name__: step for step in STEPS}
FAULTS = frozenset(BY_NAME) - {"go", "until_commit", "finish", "start", "produce", "produce_version"}


class History(NamedTuple):
    """``without``: kinds of faults that do not happen in it, so that the others do more often."""

    steps: Sequence[Sequence[Step]]
    without: frozenset[str]


def histories(faults: frozenset[str] = FAULTS) -> st.SearchStrategy[History]:
    """Histories with no other faults than these."""
    weights = {step.__name__: weight for step, weight in STEPS.items()}
    # Enough faults, however few kinds of them.
    each = max(1, 10 // sum(weights[name] for name in faults))
    names = [name for name, weight in weights.items() if name not in FAULTS for _ in range(weight)]
    names += [name for name in sorted(faults) for _ in range(weights[name] * each)]

    def step(number: int) -> Step:
        rest, b = divmod(number - FIRST, 8)
        name, a = divmod(rest, 4)
        return Step(names[name], a, b)

    # One choice per step, in short pieces: Hypothesis is faster so, and makes longer histories.
    piece = st.lists(st.integers(FIRST, FIRST + 4 * 8 * len(names) - 1).map(step), max_size=12)
    fewer = st.frozensets(st.sampled_from(sorted(faults))) if faults == FAULTS else st.just(frozenset[str]())
    return st.builds(History, st.lists(piece, min_size=3, max_size=12), fewer)


def play(history: History) -> None:
    """Raises AssertionError, with what happened."""
    world = World()
    # In place of a random part: another one each time, the same in every replay.
    numbers = count(1)
    names = SimpleNamespace(token_hex=lambda _: f"{next(numbers):x}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writers, "secrets", names)
        start(world, 0, 0)
        try:
            for step in (step for piece in history.steps for step in piece):
                if step.name not in history.without:
                    BY_NAME[step.name](world, step.a, step.b)
                    _check_errors(world)
            settle(world)
        except Violation as violation:
            story = "\n".join(f"{n:3} {event}" for n, event in enumerate(world.story, 1))
            raise AssertionError(f"{violation}\n{story}") from None
        finally:
            world.close()


def _check_errors(world: World) -> None:
    for error in (process.error for process in world.processes):
        named = isinstance(error, NAMED) and not isinstance(error, KeyError | IndexError)
        require(error is None or named, f"an error without a message: {error!r}")


def settle(world: World) -> None:
    """No other consumer goes on: one more publishes everything, or names what makes that impossible."""
    impossible = _impossible(world)
    last = world.start("last consumer", partial(consume, schema=1, until_end=True))
    for _ in range(10 * CALLS):
        if not last.is_alive:
            break
        last.step()
    require(not last.is_alive, "the last consumer does not come to an end")
    _check_errors(world)
    if impossible:
        require(
            isinstance(last.error, LookupError | Unrecoverable),
            f"{impossible}, and the stream does not say so: {last.error!r}",
        )
        return
    if last.error is not None:
        require(
            world.tables_may_differ and isinstance(last.error, LookupError | Unrecoverable),
            f"nothing is in the way, and the stream ended: {last.error!r}",
        )
        return
    ends = {number: after for number, (_, after) in world.topic.bounds().items()}
    require(world.reader.ends() == ends, f"published up to {world.reader.ends()} of {ends}")
    require(world.reader.held() == world.reader.rejected(), "the quarantine lacks rejected records")
    world.reader.check()


def _impossible(world: World) -> str:
    """Why not all can be published; empty if it can."""
    newest = world.reader.newest()
    if newest is None:
        return ""
    if newest["sluice.topic-id"] != world.topic.id:
        return "the topic was recreated"
    starts, ends = offsets_from_json(newest["sluice.start-offsets"]), world.reader.ends()
    for partition, (first, _) in world.topic.bounds().items():
        if ends.get(partition, starts.get(partition, 0)) < first:
            return f"unread records of partition {partition} are gone"
    return ""
