"""Bounds of a declaration's numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sluice.config.reading.toml import ConfigError

YEAR_DAYS = 366
# Replication factor: the broker's default.
BROKER_DEFAULT = -1
# By the end of a key's name: a longer time is a mistake, and Python's times, Airflow's tables and Kafka's
# configuration take no number at all.
MAXIMA = {
    "_seconds": YEAR_DAYS * 86_400,
    "_minutes": YEAR_DAYS * 1_440,
    "_hours": YEAR_DAYS * 24,
    "_days": 10 * YEAR_DAYS,
    "_percent": 100,
    # Positions in a piece have 31 bits.
    "_batch_mb": 1024,
    # Above a header: a file of more has another form.
    "skip_lines": 1000,
}
# For any other number: what Airflow's tables and Kafka's requests take.
MAX_INTEGER = 2**31 - 1
# For the numbers that may be less than 1, and those that must be more.
MINIMA = {
    # As Airflow keeps its runs by default: one that is cleared reads what it wrote.
    "history_days": 30,
    **dict.fromkeys(("executors", "delete_markers", "s3_calls_per_batch"), 0),
    **dict.fromkeys(("offset_minutes", "watermark_minutes", "keeps_hours"), 0),
    "skip_lines": 0,
    "replication_factor": BROKER_DEFAULT,
}


def bounds(key: str, minima: Mapping[str, int] = MINIMA) -> tuple[int, int]:
    """Minimum and maximum of a number."""
    most = next((most for end, most in MAXIMA.items() if key.endswith(end)), MAX_INTEGER)
    return minima.get(key, 1), most


def check(section: object, name: str, where: str, minima: Mapping[str, int] = MINIMA) -> None:
    """Each number of a dataclass, which is the section ``name``. Raises ConfigError."""
    for field in dataclasses.fields(section):  # type: ignore[arg-type]
        value = getattr(section, field.name)
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        least, most = bounds(field.name, minima)
        if not least <= value <= most:
            bound = f"at least {least}" if value < least else f"at most {most}"
            raise ConfigError(f"{where}: {name} {field.name} is {value}; it must be {bound}. Fix: correct it")
