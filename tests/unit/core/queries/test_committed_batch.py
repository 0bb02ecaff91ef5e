from __future__ import annotations

import pytest

from sluice.core.queries import committed_batch
from sluice.core.queries.committed_batch import NO_BATCH, CommittedBatch
from tests.support.raising import raising


@pytest.mark.parametrize("mark", [CommittedBatch(1), CommittedBatch(7, 0), CommittedBatch(2**40, 10**9)])
def test_a_mark_is_read_as_it_was_written(mark: CommittedBatch) -> None:
    assert committed_batch.parse(mark.offset, mark.text()) == mark


def test_the_group_s_offset_is_the_batch_that_comes_next() -> None:
    assert CommittedBatch(3).offset == 0, "a lag tool shows nothing done"
    assert CommittedBatch(3, 4).offset == 5
    assert CommittedBatch(3, 4).text() == '{"epoch":3}'
    assert committed_batch.parse(0, '{"epoch": 3}').batch == NO_BATCH


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        (5, ""),
        (5, "set by hand"),
        (5, "[1]"),
        (5, "7"),
        (5, "null"),
        (5, '{"writer":3}'),
        (5, '{"epoch":"3"}'),
        (5, '{"epoch":3.0}'),
        (5, '{"epoch":true}'),
        (-1, '{"epoch":3}'),
        # librdkafka's word for no offset at all.
        (-1001, '{"epoch":3}'),
    ],
)
def test_what_is_no_mark_is_refused_and_shown(offset: int, text: str) -> None:
    with raising(ValueError, f"offset {offset} ", repr(text)):
        committed_batch.parse(offset, text)


def test_names_tell_streams_queries_and_topics_apart() -> None:
    assert committed_batch.group("isp_hits", "windows") == "sluice-isp_hits-query-windows"
    assert (
        committed_batch.transactional_id("isp_hits", "windows", "counts")
        == "sluice-isp_hits-query-windows-counts"
    )
    ids = {
        committed_batch.transactional_id(stream, query, topic)
        for stream in ("a", "b")
        for query in ("a", "b")
        for topic in ("a", "b")
    }
    assert len(ids) == 8
