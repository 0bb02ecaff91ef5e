"""The last check of each component: what supervision reports, and its metrics for a dead man's switch."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sluice.config.reading.toml import IDENTIFIER
from sluice.core.exposition import MetricSpec


@dataclass(frozen=True)
class Check:
    """``at``: its end, in seconds since 1970; once it is received, the receiver's time.
    ``max_age_seconds``: within it the next one ends."""

    stream: str
    component: str
    at: float
    max_age_seconds: float

    def dump(self) -> str:
        return json.dumps(vars(self))

    @classmethod
    def parse(cls, document: Any) -> Check:
        """Raises ValueError."""
        try:
            found = cls(**document)
            names = IDENTIFIER.fullmatch(found.stream) and IDENTIFIER.fullmatch(found.component)
            # With an infinite time no alert would ever fire.
            is_valid = bool(names) and all(0 < at < math.inf for at in (found.at, found.max_age_seconds))
            found = replace(found, at=float(found.at), max_age_seconds=float(found.max_age_seconds))
        except (TypeError, OverflowError) as error:
            raise ValueError(f"no check: {document!r:.200}") from error
        if not is_valid:
            raise ValueError(f"no check: {document!r:.200}")
        return found


class Checks:
    """The check of each component that was received last, whatever its time: one of a clock that was ahead
    would hide all others."""

    def __init__(self, checks: Collection[Check] = ()) -> None:
        self._last: dict[tuple[str, str], Check] = {}
        for check in checks:
            self.add(check)

    def add(self, check: Check) -> None:
        self._last[check.stream, check.component] = check

    def expect(self, checks: Iterable[Check]) -> bool:
        """Add those of components without one. Returns whether there were any."""
        missing = [check for check in checks if (check.stream, check.component) not in self._last]
        for check in missing:
            self.add(check)
        return bool(missing)

    def of(self, streams: Collection[str] | None) -> list[Check]:
        """None: of all."""
        return [check for check in self._last.values() if streams is None or check.stream in streams]

    @classmethod
    def parse(cls, text: str) -> Checks:
        """Raises ValueError."""
        return cls([Check.parse(document) for document in json.loads(text)])

    def dump(self) -> str:
        return json.dumps([vars(check) for check in self._last.values()])


_LABELS = ("stream", "component")
LAST_CHECK = MetricSpec(
    "sluice_supervision_last_check_timestamp_seconds",
    "when the last check was reported, whatever it found, by the clock of `checks`; of a component that was "
    "never checked, when `checks` first missed it",
    _LABELS,
)
MAX_AGE = MetricSpec(
    "sluice_supervision_max_check_age_seconds",
    "within it the next check ends: four intervals of supervision",
    _LABELS,
)
METRICS = (LAST_CHECK, MAX_AGE)


class CheckMetrics(Collector):
    def __init__(self, checks: Collection[Check]) -> None:
        self._checks = checks

    def collect(self) -> Iterator[Metric]:
        last, age = LAST_CHECK.family(), MAX_AGE.family()
        for check in self._checks:
            last.add_metric([check.stream, check.component], check.at)
            age.add_metric([check.stream, check.component], check.max_age_seconds)
        yield last
        yield age
