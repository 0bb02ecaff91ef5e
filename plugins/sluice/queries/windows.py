"""Which results of a query are compared with the lake, and from when on a sink has them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sluice.core.queries.result import key_text

if TYPE_CHECKING:
    from sluice.config.sections.query import Query
    from sluice.core.queries.progress import QueryState
    from sluice.queries.compare import Aggregates

# Column -> first and last time in it, in seconds since 1970; without columns that have none.
Times = Mapping[str, tuple[int, int]]
# Between the clocks that date rows, snapshots and a topic's records.
CLOCK_SLACK_SECONDS = 3600
# A load without rows of its own, as all its sources were verified before, is compared in so many.
NEWEST_WINDOWS = 24


def affected_windows(query: Query, times: Times) -> tuple[int, int] | None:
    """First and last start (seconds since 1970) of the windows that these times may be in; None if there are
    none, or the query has no windows.

    Rows that the query's ``where`` excludes count too, and so do early ones: a sink must not have them.
    """
    if query.window is None or query.event_time not in times:
        return None
    first, last = times[query.event_time]
    return query.window.starts(first)[0], query.window.starts(last)[-1]


def chosen_windows(
    query: Query, state: QueryState, of_load: tuple[int, int] | None
) -> tuple[str, tuple[int, int] | None]:
    """What is compared, in words, and its first and last window; None: all results."""
    if query.window is None:
        return "all results", None
    if of_load:
        return f"the load's windows {_span(of_load)}", of_load
    # Without a first watermark the query has had one batch.
    if not state.watermark:
        return "all windows", None
    # The watermark follows the newest event time that the query has counted.
    last = query.window.starts(state.watermark // 1000 + query.watermark_minutes * 60)[-1]
    newest = last - (NEWEST_WINDOWS - 1) * query.window.slide_minutes * 60, last
    return f"the lake's newest windows {_span(newest)}", newest


def _span(windows: tuple[int, int]) -> str:
    return " to ".join(key_text([datetime.fromtimestamp(at, UTC)]) for at in windows)


def written_since(query: Query, windows: tuple[int, int] | None) -> float | None:
    """The time (seconds since 1970) from which on a topic has all records of these windows' results; None if
    it may be any.

    A window's results are not written before it starts, except of rows that are dated ahead by up to the
    watermark's delay. Without windows a result is as old as its group's last change; and though a batch of
    mode complete writes all results, a group that the lake has not any more is in none.
    """
    if windows is None:
        return None
    return windows[0] - query.watermark_minutes * 60 - CLOCK_SLACK_SECONDS


def in_windows(results: Aggregates, query: Query, windows: tuple[int, int] | None) -> Aggregates:
    """The results whose window starts between the first and last of ``windows``; all without ``windows``."""
    if query.window is None or windows is None:
        return results
    # Key texts of times sort as the times do, and are the key's last part.
    first, last = (key_text([datetime.fromtimestamp(at, UTC)]) for at in windows)
    return {key: value for key, value in results.items() if first <= key.rsplit("|", 1)[1] <= last}
