"""How a stream's CSV files become records: of its ``[csv]`` and its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.config.avro_texts import table_avro
from sluice.config.reading.files import declared_text
from sluice.config.reading.names import column_problem
from sluice.config.reading.toml import ConfigError
from sluice.config.schema import ddl_avro, parse_ddl
from sluice.config.stream import SourceType, StreamSpec
from sluice.core.csv.columns.kinds import MAP, UnsupportedType, kind_of_field
from sluice.core.csv.columns.patterns import UnknownPattern, patterns
from sluice.core.csv.form import Declared, Form, Rules

if TYPE_CHECKING:
    from sluice.config.sections.csv import Csv
    from sluice.core.csv.layout import Layout


@dataclass(frozen=True)
class CsvReading:
    """``form``: bytes to cells, ``rules``: cells to values of ``schema``, the topic's Avro schema; ``rest``:
    its map for other columns, or ""; ``is_ddl``: the stream's columns are written in DDL; ``adds_columns``:
    columns that the schema does not name become some of the table."""

    form: Form
    rules: Rules
    schema: Mapping[str, Any]
    rest: str
    is_ddl: bool = False
    adds_columns: bool = False

    @property
    def declared(self) -> Declared:
        """As far as advice depends on it."""
        return Declared(self.rules, self.form.dialect, self.is_ddl)

    @classmethod
    def of(cls, spec: StreamSpec) -> CsvReading:
        """Raises ConfigError."""
        return cls.with_schema(spec, spec.schema_file)

    @classmethod
    def with_schema(cls, spec: StreamSpec, file: Path) -> CsvReading:
        schema = json.loads(avro_text(spec, file))
        csv = spec.csv
        return cls(csv.form, rules_of(csv), schema, csv.extra_columns, spec.is_ddl, csv.adds_columns)

    def schema_of(self, names: Sequence[str], where: str) -> Mapping[str, Any]:
        """The Avro schema of a file's records, with these columns: ``schema`` itself, if it has all of them,
        or if none is added. Raises InvalidHeader, naming ``where``."""
        if not self.adds_columns:
            return self.schema
        from sluice.core.csv.new_columns import with_new_columns

        return with_new_columns(self.schema, names, column_problem, where)

    def layout(self, names: Sequence[str], where: str, max_value_bytes: int, limit: str = "") -> Layout:
        """The layout of a file with these columns. Raises InvalidHeader, naming ``where``, or
        UnsupportedType."""
        # With NumPy and Arrow, which a DAG does not need.
        from sluice.core.csv.layout import Layout

        schema = self.schema_of(names, where)
        return Layout.of(
            names, schema, self.rest, self.rules, self.form.dialect, where, max_value_bytes, limit
        )


def reading_of(spec: StreamSpec) -> CsvReading | None:
    """None for a stream without files. Raises ConfigError."""
    return CsvReading.of(spec) if spec.source is SourceType.CSV else None


def rules_of(csv: Csv) -> Rules:
    return Rules(
        tuple(csv.time_formats),
        csv.decimal_comma,
        tuple(csv.null_texts),
        tuple(text.lower() for text in csv.true_texts),
        tuple(text.lower() for text in csv.false_texts),
        csv.trim,
        csv.quoted_nulls,
    )


def avro_text(spec: StreamSpec, file: Path) -> str:
    """The Avro schema of records: the stream's own ``file``, or that of its columns in DDL. Raises
    ConfigError."""
    text = declared_text(file)
    if not spec.is_ddl:
        is_unrolled = spec.records is not None and spec.records.has_recursive_texts
        return table_avro(spec, text, f"{spec.name}/{spec.schema}") if is_unrolled else text
    return json.dumps(ddl_avro(parse_ddl(text, f"{spec.name}/{spec.schema}"), spec.name))


def check(spec: StreamSpec, file: Path, where: str) -> None:
    """That cells can be values of each column. Raises ConfigError."""
    for text in spec.csv.time_formats:
        try:
            patterns(text)
        except UnknownPattern as error:
            raise ConfigError(f"{where}: [csv] time_formats: {error}. Fix: correct it") from error
    reading = CsvReading.with_schema(spec, file)
    for field in reading.schema["fields"]:
        try:
            kind = kind_of_field(field)
        except UnsupportedType as error:
            raise ConfigError(f"{where}: {spec.schema}: {error}") from error
        if kind.name == MAP and field["name"] != reading.rest:
            # It would be empty, and a column of its name has no place.
            raise ConfigError(
                f"{where}: {spec.schema}: field {field['name']!r} is a map, and [csv] extra_columns is "
                f"{reading.rest!r}. Fix: name it as extra_columns, or remove it"
            )
