"""Where a report stands, as the summaries of its own snapshots say it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sluice.model.stream import Report


@dataclass(frozen=True)
class State:
    """What is counted. Moments in ms since 1970, None before there is one.

    ``source`` is the snapshot of the stream's table up to which everything is in the report, made at
    ``source_at``, with so many ``records`` in the table then; ``ends`` is what it said of the topic.
    ``newest``: the newest event of them; ``late``: how many came too late. ``rule`` is what was declared when
    they were counted: what was counted by another rule is of no use.
    """

    rule: str
    source: int | None = None
    source_at: int | None = None
    records: int = 0
    newest: int | None = None
    late: int = 0
    ends: Mapping[int, int] = field(default_factory=dict)

    def watermark(self, minutes: int) -> int | None:
        """Against which the next batch is judged."""
        return None if self.newest is None else self.newest - minutes * 60_000


def rule(report: Report) -> str:
    """What the counts depend on, besides the code."""
    return f"windows of {report.window_minutes} min, watermark {report.watermark_minutes} min"


def read(summaries: Iterable[Mapping[str, str]], rule_now: str) -> State:
    """The state in the newest of the report's own snapshots, the newest first; nothing counted where there is
    none, or where it was counted by another rule."""
    for summary in summaries:
        if "sluice.kind" in summary:
            if summary["sluice.rule"] != rule_now or not summary["sluice.source"]:
                break
            ends = json.loads(summary["sluice.ends"])
            return State(
                rule=rule_now,
                source=int(summary["sluice.source"]),
                source_at=int(summary["sluice.source_at"]),
                records=int(summary["sluice.records"]),
                newest=int(summary["sluice.newest"]) if summary["sluice.newest"] else None,
                late=int(summary["sluice.late"]),
                ends={int(partition): int(end) for partition, end in ends.items()},
            )
    return State(rule_now)


def summary(kind: str, stream: str, token: int, state: State, watermark_minutes: int) -> dict[str, str]:
    """What a snapshot of the report says: ``kind`` is genesis, takeover or report. A moment that there is not
    is an empty text."""
    watermark = state.watermark(watermark_minutes)
    said = {
        "kind": kind,
        "stream": stream,
        "token": token,
        "rule": state.rule,
        "source": state.source,
        "source_at": state.source_at,
        "records": state.records,
        "newest": state.newest,
        "watermark": watermark,
        "late": state.late,
        "ends": json.dumps({str(partition): end for partition, end in sorted(state.ends.items())}),
    }
    return {f"sluice.{key}": "" if value is None else str(value) for key, value in said.items()}
