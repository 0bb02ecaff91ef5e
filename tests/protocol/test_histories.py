"""Exact under every interleaving: the project's own writers under histories that Hypothesis searches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.protocol.history import History, Step, histories, play
from tests.protocol.processes import without_servers
from tests.protocol.removed_fixes import REMOVED, staged_by_a_commit_of_its_own

# Times the examples of the profile: one takes 5 ms.
HISTORIES_PER_EXAMPLE = 10
# Within which each fix is missed if it is removed: searches, and histories of each. One that has not found it
# early tries more of the same, so others begin elsewhere.
SEARCHES, HISTORIES = 15, 400
# The profile "quick" does not look for the shortest history.
PHASES = (Phase.generate, Phase.shrink) if settings().max_examples > 25 else (Phase.generate,)


@pytest.fixture(autouse=True)
def _without_servers() -> Iterator[None]:
    with without_servers():
        yield


@settings(
    max_examples=HISTORIES_PER_EXAMPLE * settings().max_examples,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(history=histories())
def test_every_offset_is_published_once_whatever_happens_or_the_stream_says_why_not(history: History) -> None:
    play(history)


@pytest.mark.parametrize("fix", REMOVED)
def test_without_a_fix_the_search_finds_what_it_is_for(fix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = REMOVED[fix]
    tried: list[History] = []

    @settings(
        max_examples=HISTORIES,
        database=None,
        deadline=None,
        phases=PHASES,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(history=histories(removed.faults))
    def search(history: History) -> None:
        tried.append(history)
        play(history)

    def search_from_each_seed() -> None:
        for number in range(SEARCHES):
            seed(removed.seed + number)(search)()

    removed.remove(monkeypatch)
    with pytest.raises(AssertionError) as found:
        search_from_each_seed()
    print(f"{fix}: {len(tried)} histories\n{found.value}")


def test_a_staged_snapshot_does_not_take_back_what_was_published_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Too rare for the search: of two writers the first gets no answer, and the second has published."""
    names = ("until_commit", "go", "start_another", "finish", "produce", "finish", "lose_answer")
    first_writer = {"lose_answer": (1, 1)}
    history = History([[Step(name, *first_writer.get(name, (0, 0))) for name in names]], frozenset())
    play(history)
    staged_by_a_commit_of_its_own(monkeypatch)
    with pytest.raises(AssertionError, match="published up to"):
        play(history)


@pytest.mark.parametrize("calls", range(4))
def test_a_topic_that_is_recreated_while_the_first_writer_starts(calls: int) -> None:
    """Between any two of its calls: it begins with the offsets of the topic whose id it publishes."""
    names = {"produce": 0, "retain": 0, "go": calls, "recreate": 0, "finish": 0}
    play(History([[Step(name, 0, b) for name, b in names.items()]], frozenset()))


@pytest.mark.parametrize("restored", range(3))
def test_a_restore_between_the_publishes_of_a_batch_while_the_next_one_rejects_records(restored: int) -> None:
    """The stream's table is where the writer left it then, and the quarantine is not. After every call: the
    search takes thousands of histories to find it."""
    for calls in range(25):
        for back in range(4):
            names = [("produce", 0, 1), ("finish", 0, 0), ("produce", 0, 1), ("go", 0, 0)]
            names += [("go", 0, 0)] * calls + [("restore", restored, back), ("finish", 0, 0)]
            play(History([[Step(*one) for one in names]], frozenset()))
