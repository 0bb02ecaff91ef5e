"""``[csv]`` of a ``stream.toml``: the source objects, and how their lines are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated


@dataclass(frozen=True)
class Csv:
    time_formats: Annotated[
        list[str],
        "Spark's time patterns, tried in this order; [those of a fixed width are "
        "fast](performance.md#the-producer)",
    ] = field(default_factory=lambda: ["yyyy-MM-dd HH:mm:ss"])
    extra_columns: Annotated[
        str,
        "the schema's map of strings for columns that the schema does not name; without it an object with "
        "such a column is rejected",
    ] = ""
    prefix: Annotated[
        str,
        "folders of the source bucket, each ending in `/`, of ASCII letters, digits, `_`, `-`, `.` and `=`, "
        "without blanks; in the default `{name}` stands for the stream's name. The only keys that loads, "
        'backfills and changes of the stream read; `""`: the whole bucket. Who may trigger a stream\'s '
        "DAGs can bring files of its prefix into its table, and no others",
    ] = "{name}/"
