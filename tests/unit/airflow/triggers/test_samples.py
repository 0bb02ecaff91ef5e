"""What is kept of earlier checks: of each declared component, however many there are, and of no other."""

from __future__ import annotations

from dataclasses import replace

from sluice.airflow.triggers import samples as module
from sluice.airflow.triggers.samples import BYTES_PER_COMPONENT, MAX_SAMPLES, SampleStore
from sluice.supervision.rules.sample import Sample
from tests.support.supervision import sample

NOW, REACH, APART = 10_000.0, 1500.0, 75.0
COMPONENTS = ("consumer", "producer", "queries")


def series(count: int, partitions: int = 1, until: float = NOW) -> list[Sample]:
    """APART seconds apart, oldest first. As in a real topic, no end offset is the next one's."""
    made = []
    for number in range(count):
        at = until - APART * (count - 1 - number)
        ends = {p: int((at * 7919 * (p + 1) ** 3) % 10**9) for p in range(partitions)}
        made.append(replace(sample(at), ends=ends, begins=dict(ends)))
    return made


def store(*declared: str) -> SampleStore:
    return SampleStore(lambda: declared)


def test_a_thousand_components_are_all_remembered() -> None:
    names = [f"s{number}" for number in range(334)]
    made = store(*names)
    kept = series(20)
    for name in names:
        for component in COMPONENTS:
            made.keep(name, component, kept, REACH)
    made.forget(NOW)
    assert [one for name in names for one in COMPONENTS if made.earlier(name, one) != kept] == []
    assert made.bytes < 1002 * BYTES_PER_COMPONENT / 20, "as much as such streams take"


def test_a_stream_that_is_not_declared_any_more_is_forgotten() -> None:
    declared = {"x", "y"}
    made = SampleStore(lambda: declared)
    for name in declared:
        made.keep(name, "consumer", series(3), REACH)
    declared.remove("x")
    made._looked_at -= module.DECLARED_SECONDS
    made.keep("y", "queries", series(3), REACH)
    assert made.earlier("x", "consumer") == []
    assert len(made.earlier("y", "consumer")) == 3


def test_samples_that_no_rule_would_read_are_forgotten() -> None:
    made = store("paused", "y")
    made.keep("paused", "consumer", series(3, until=NOW - REACH - 1), REACH)
    made.keep("y", "consumer", series(3, until=NOW - REACH + 1), REACH)
    made.forget(NOW)
    assert (made.earlier("paused", "consumer"), len(made.earlier("y", "consumer"))) == ([], 3)


def test_memory_is_bounded_where_topics_have_very_many_partitions_and_nothing_is_forgotten() -> None:
    made = store("small", "large", "larger")
    made.keep("small", "consumer", series(MAX_SAMPLES - 1), REACH)
    made.keep("large", "consumer", series(MAX_SAMPLES - 1, 900), REACH)
    made.keep("larger", "consumer", series(MAX_SAMPLES - 1, 1800), REACH)
    assert made.bytes <= 3 * BYTES_PER_COMPONENT
    assert len(made.earlier("small", "consumer")) == MAX_SAMPLES - 1
    large, larger = (made.earlier(name, "consumer") for name in ("large", "larger"))
    assert 2 <= len(larger) < len(large)
    # As far back as before, from the newest on.
    assert (
        (large[0].at, large[-1].at) == (larger[0].at, larger[-1].at) == (series(MAX_SAMPLES - 1)[0].at, NOW)
    )


def test_two_samples_are_kept_however_large_they_are() -> None:
    made = store("x")
    made.keep("x", "consumer", series(5, 30_000), REACH)
    assert [one.at for one in made.earlier("x", "consumer")] == [NOW - 4 * APART, NOW]
