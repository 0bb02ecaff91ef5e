"""The last check of each component: what supervision reports, and its metrics for a dead man's switch."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sluice.model.spec.config import IDENTIFIER


@dataclass(frozen=True)
class Check:
    """``at``: its end, in seconds since 1970. ``max_age_seconds``: within it the next one ends."""

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
            is_valid = bool(names) and float(found.at) > 0 and float(found.max_age_seconds) > 0
        except TypeError as error:
            raise ValueError(f"no check: {document!r:.200}") from error
        if not is_valid:
            raise ValueError(f"no check: {document!r:.200}")
        return found


class Checks:
    """The newest check of each component, as documents that come in any order."""

    def __init__(self, checks: Collection[Check] = ()) -> None:
        self._newest: dict[tuple[str, str], Check] = {}
        for check in checks:
            self.add(check)

    def add(self, check: Check) -> None:
        key = (check.stream, check.component)
        known = self._newest.get(key)
        if known is None or known.at <= check.at:
            self._newest[key] = check

    def of(self, streams: Collection[str]) -> list[Check]:
        return [check for check in self._newest.values() if check.stream in streams]

    @classmethod
    def parse(cls, text: str) -> Checks:
        """Raises ValueError."""
        return cls([Check.parse(document) for document in json.loads(text)])

    def dump(self) -> str:
        return json.dumps([vars(check) for check in self._newest.values()])


# Name after ``sluice_supervision_`` -> help and field.
_GAUGES: Mapping[str, tuple[str, str]] = {
    "last_check_timestamp_seconds": ("when the last check of the component ended", "at"),
    "max_check_age_seconds": ("the next one ends within it", "max_age_seconds"),
}


class CheckMetrics(Collector):
    def __init__(self, checks: Collection[Check]) -> None:
        self._checks = checks

    def collect(self) -> Iterator[Metric]:
        for name, (text, field) in _GAUGES.items():
            gauge = GaugeMetricFamily(f"sluice_supervision_{name}", text, labels=["stream", "component"])
            for check in self._checks:
                gauge.add_metric([check.stream, check.component], float(getattr(check, field)))
            yield gauge
