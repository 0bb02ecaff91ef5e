"""The plan by itself: what must be accepted is valid by the refs before it, what must be refused is not."""

from __future__ import annotations

import pytest

from local.base import REPO
from sluice.catalog_check.promises import RACE_REFS, RACES, STEPS, Race, after, is_met


def test_a_commit_is_refused_for_one_of_what_it_expects_or_for_its_sequence_number() -> None:
    refs: dict[str, str] = {}
    last = 0
    for step in STEPS:
        numbers = [one.sequence for one in step.commit.adds]
        is_next = all(number == last + 1 for number in numbers)
        assert (is_met(refs, step.commit) and is_next) is step.is_valid, step.promise
        assert is_met(refs, step.commit) is not is_next or step.is_valid, "for one reason"
        if step.is_valid:
            refs, last = after(refs, step.commit), max([last, *numbers])


@pytest.mark.parametrize("race", RACES, ids=lambda race: str(race.promise))
def test_each_of_two_commits_is_valid_and_makes_the_other_invalid(race: Race) -> None:
    for one, other in ((race.one, race.other), (race.other, race.one)):
        assert is_met(RACE_REFS, one)
        assert not is_met(after(RACE_REFS, one), other)


def test_the_docs_say_each_as_the_code_does() -> None:
    page = (REPO / "docs" / "catalogs.md").read_text()
    for one in (*STEPS, *RACES):
        assert f"| `{one.promise}` | {one.text} |" in page
