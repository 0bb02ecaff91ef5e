"""What stays known of deleted batches is exact, however much it is, and a damaged document is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.offsets import offset_set
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.without_record import WithoutRecord
from sluice.ledger import rolled_up
from sluice.ledger.batch_log import rolled_up_key, rolled_up_number
from sluice.ledger.documents import Ledger
from sluice.ledger.rolled_up import KEPT_EVIDENCE, RolledUp, RolledUpReader
from tests.support.batches import LOCATION, batch
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising


def said(**names: list[tuple[int, int]]) -> WithoutRecord:
    return WithoutRecord(**{name: OffsetRanges.of({0: pairs}) for name, pairs in names.items()})  # type: ignore[arg-type]


@pytest.fixture
def documents() -> Ledger:
    return Ledger(MemoryS3().as_client(), LOCATION, "batches")


@pytest.mark.parametrize("most", [0, offset_set.MAX_RANGES_AS_TEXT], ids=["bitmaps", "text"])
def test_it_is_read_as_it_was_written(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(offset_set, "MAX_RANGES_AS_TEXT", most)
    one = replace(batch(0, 0, 10), without_record=said(control=[(1, 2)], skipped=[(4, 6)]))
    other = replace(batch(3, 30, 40), without_record=replace(said(absent=[(33, 35)]), evidence="compacted"))
    known = RolledUp().more([one]).more([other])
    assert RolledUp.from_document(json.loads(json.dumps(known.to_document("u")))) == known
    assert known.until == other.published
    asked = OffsetRanges.of({0: [(0, 5), (20, 34)], 7: [(0, 1)]})
    assert known.of(asked) == replace(
        said(control=[(1, 2)], skipped=[(4, 5)], absent=[(33, 34)]), evidence="compacted"
    )
    assert known.of(OffsetRanges.of({0: [(0, 5)]})).evidence == ""
    assert known.others(asked) == OffsetRanges.of({0: [(20, 30)], 7: [(0, 1)]})
    assert known.has(OffsetRanges.of({0: [(0, 10)]}))
    assert known.more([]) == known.more([one]) == known


def test_evidence_of_many_is_that_of_the_first_and_the_last() -> None:
    known = RolledUp()
    for number in range(5 * KEPT_EVIDENCE):
        found = replace(said(absent=[(number, number + 1)]), evidence=f"observed {number}")
        known = known.more([replace(batch(number, number, number + 1), without_record=found)])
    pieces = known.evidence.split("; ")
    assert len(pieces) == 2 * KEPT_EVIDENCE + 1
    assert (pieces[0], pieces[-1]) == ("observed 0", f"observed {5 * KEPT_EVIDENCE - 1}")


def test_the_newest_document_counts(documents: Ledger) -> None:
    assert rolled_up.newest(documents, "u") == (0, RolledUp())
    for number in (1, 2, 10):
        known = RolledUp().more([batch(number, 0, number)])
        documents.put(rolled_up_key(number), known.to_document("u"))
    assert rolled_up.newest(documents, "u") == (10, known)
    assert [rolled_up_number(key) for key in rolled_up.older(documents, 10, "u")] == [2, 1]
    assert rolled_up.older(documents, 1, "u") == []


def test_what_another_table_left_in_the_folder_says_nothing(documents: Ledger) -> None:
    asked = OffsetRanges.of({0: [(0, 5)]})
    known = RolledUp().more([batch(0, 0, 5)])
    documents.put(
        rolled_up_key(1), {key: one for key, one in known.to_document("u").items() if key != "table_uuid"}
    )
    documents.put(rolled_up_key(2), known.to_document("another"))
    assert rolled_up.newest(documents, "u") == (2, RolledUp())
    assert not RolledUpReader(documents, "u").about(asked).has(asked)
    documents.put(rolled_up_key(3), known.to_document("u"))
    assert rolled_up.newest(documents, "u") == (3, known)
    assert rolled_up.older(documents, 3, "u") == [rolled_up_key(1)], "one of before is the table's"
    assert rolled_up.older(documents, 3, "another") == [rolled_up_key(2), rolled_up_key(1)]


def test_what_is_known_is_read_again_for_other_offsets(documents: Ledger) -> None:
    reader, asked = RolledUpReader(documents, "u"), OffsetRanges.of({0: [(0, 5)]})
    assert not reader.about(asked).has(asked)
    documents.put(rolled_up_key(1), RolledUp().more([batch(0, 0, 5)]).to_document("u"))
    assert reader.about(asked).has(asked)


@pytest.mark.parametrize(
    "body",
    [
        "[]", "{}", '{"offsets": "x", "without_record": {}, "evidence": "", "until": null}',
        '{"offsets": "{}", "without_record": {"lost": "{}"}, "evidence": "", "until": null}',
    ],
)  # fmt: skip
def test_a_damaged_one_is_refused(documents: Ledger, body: str) -> None:
    documents.put(rolled_up_key(1), json.loads(body))
    with raising(Refused, rolled_up_key(1), "damaged", "Fix: ") as caught:
        rolled_up.newest(documents, "u")
    assert caught.value.code is ErrorCode.LAKE_FILE_MISSING
