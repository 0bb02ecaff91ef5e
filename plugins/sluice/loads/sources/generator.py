"""Rows that a generator makes: its parameters tell each of them, and their number."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from sluice.config.sections import generator as generated
from sluice.core.json_record import Document
from sluice.loads.sources.base import Dataset, Source

if TYPE_CHECKING:
    from sluice.config.sections.generator import Generator
    from sluice.systems import Systems


@dataclass(frozen=True)
class GeneratorSource(Source):
    """Equal parameters are one source."""

    KIND = "generated"

    @classmethod
    def from_params(
        cls, generator: Generator, run_id: str, params: Mapping[str, Any], moment: datetime
    ) -> Self:
        """The generator's parameters in ``params``. By default the events end with the last full hour before
        ``moment`` (aware), since queries leave out events that are dated ahead; ``seed`` is the run's own.

        Raises ConfigError for a value out of bounds, and for hits so far in the future that they would be
        quarantined.
        """
        where = f"params of run {run_id!r}"
        given = {
            name: value
            for name, value in params.items()
            if name in generator.schemas and value not in (None, "")
        }
        usual = {
            "start_time": generated.truncate_to_hour(moment),
            "seed": int(hashlib.sha256(run_id.encode()).hexdigest()[:8], 16),
        }
        parameters = generated.parse(generator, {**usual, **given}, where)
        if "start_time" not in given:
            start = generated.truncate_to_hour(moment - (parameters.ends - parameters.begins))
            parameters = replace(parameters, values={**parameters.values, "start_time": start})
        generated.check_not_in_future(parameters, datetime.now(UTC), where)
        values = dict(parameters.values)
        return cls({"source_id": parameters.source_id, "kind": cls.KIND, "parameters": values})

    @property
    def parameters(self) -> Document:
        parameters: Document = self.document["parameters"]
        return parameters

    @property
    def name(self) -> str:
        return generated.describe(self.parameters)

    @property
    def identity(self) -> Document:
        return {"generated": self.parameters}

    @property
    def start_time(self) -> str | None:
        return str(self.parameters["start_time"])

    def send_again(self) -> str:
        return "trigger a new run with another seed"

    def send_by_other_rules(self, stream: str) -> str:
        return "trigger a run with another seed"

    def rows(self, systems: Systems) -> int | None:
        return int(self.parameters["rows"])

    @classmethod
    def datasets(cls, sources: Sequence[Self]) -> list[Dataset]:
        """None: its rows come from no dataset."""
        return []
