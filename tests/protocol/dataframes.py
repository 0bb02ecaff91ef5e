"""In place of Spark: what the writers do with data frames, over the model's records."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.errors import PySparkException

from sluice.config.platform_sections.lake import CATALOG
from tests.protocol.catalog import File, Record


class Column:
    def __init__(self, name: str) -> None:
        self.name = name


class F:
    """In place of ``pyspark.sql.functions``, which needs a JVM."""

    col = Column

    @staticmethod
    def lit(value: Any) -> Any:
        return value

    @staticmethod
    def current_timestamp() -> None:
        return None


class Rows:
    """A DataFrame: evaluated as often as it is written, from the topic as it is then."""

    columns = ()

    def __init__(self, spark: Spark, evaluate: Callable[[], list[Record]]) -> None:
        self.spark, self.evaluate = spark, evaluate

    def map(self, change: Callable[[Record], Record]) -> Rows:
        return Rows(self.spark, lambda: [change(record) for record in self.evaluate()])

    def withColumns(self, columns: Mapping[str, Any]) -> Rows:  # noqa: N802
        return self.map(lambda record: record._replace(stage=columns["stage"]))

    def select(self, *_: object) -> Rows:
        return self

    repartition = select

    def writeTo(self, name: str) -> Write:  # noqa: N802
        return Write(self, name)


class Write:
    """A write to a branch, ``<catalog>.<table>.branch_<name>``."""

    def __init__(self, rows: Rows, name: str) -> None:
        self._rows, self._target = rows, name
        self._properties: dict[str, str] = {}

    def option(self, key: str, value: str) -> Write:
        self._properties[key.removeprefix("snapshot-property.")] = value
        return self

    def append(self) -> None:
        spark = self._rows.spark
        name, branch = spark.branch(self._target)
        files = spark.written(self._rows.evaluate())
        spark.world.point(f"append {name}")
        number = spark.world.catalog.commit(name, branch, self._properties, files)
        spark.world.answer(f"appended {name}", name, branch, number)


class Spark:
    """In place of a session."""

    def __init__(self, world: Any) -> None:
        self.world = world

        # Projections mean nothing here.
        self.schema = ()

    def table(self, name: str) -> Any:
        """For its schema, or with the number of rows that a consumer rejected."""
        return Quarantined(self, name) if ".branch_" in name else self

    def branch(self, target: str) -> tuple[str, str]:
        """Table and branch. Raises as Spark's analysis if the branch is missing: the commit would make it."""
        name, branch = target.removeprefix(f"{CATALOG}.").rsplit(".branch_", 1)
        self.world.point(f"analyse {name}")
        if branch not in self.world.catalog.tables[name].refs:
            raise PySparkException(f"Cannot use branch (does not exist): {branch}")
        return name, branch

    def written(self, records: list[Record]) -> list[File]:
        """One file per topic partition."""
        numbers = sorted({record.partition for record in records})
        return [
            self.world.catalog.new_file([r for r in records if r.partition == number]) for number in numbers
        ]

    def sql(self, statement: str) -> None:
        """The quarantine's DELETE: files are written again, without the records."""
        match = re.fullmatch(r"DELETE FROM (\S+) WHERE stage = 'consumer' AND NOT \((.+)\)", statement)
        assert match, statement
        kept = {int(p): int(end) for p, end in re.findall(r"partition = (\d+) AND \S+ < (\d+)", match[2])}
        name, branch = self.branch(match[1])

        def left(files: tuple[File, ...]) -> tuple[File, ...]:
            def stays(record: Record) -> bool:
                return record.stage != "consumer" or record.offset < kept.get(record.partition, 0)

            return tuple(self.world.catalog.new_file([r for r in file.records if stays(r)]) for file in files)

        self.world.point(f"delete {name}")
        self.world.catalog.commit(name, branch, {}, kept=left, what="delete")
        self.world.point(f"deleted {name}")


class Quarantined:
    """The quarantine's rows on a branch."""

    def __init__(self, spark: Spark, target: str) -> None:
        self._spark, self._target = spark, target

    def where(self, condition: str) -> Quarantined:
        assert condition == "stage = 'consumer'"
        return self

    def count(self) -> int:
        name, branch = self._spark.branch(self._target)
        records = self._spark.world.catalog.tables[name].records(branch)
        return sum(record.stage == "consumer" for record in records)
