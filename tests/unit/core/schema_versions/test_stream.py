"""What a stream's schema is, for people."""

from __future__ import annotations

from sluice.core.schema_versions.columns import Came
from sluice.core.schema_versions.stream import Column, bounds_text, column_of, fields_of


def test_when_a_column_came() -> None:
    came = {7: Came(5_000)}
    kept = [(1_000, False), (2_000, True), (3_000, True)]
    assert column_of("a", "int", 1, came, kept, 500) == Column("a", "int", 500)
    assert column_of("a", "int", 7, came, kept, 0) == Column("a", "int", 5_000)
    assert column_of("a", "int", 2, came, kept, 0) == Column("a", "int", 2_000)
    # All that are kept have it.
    assert column_of("a", "int", 2, came, kept[1:], 0) == Column("a", "int", 2_000, is_latest=True)
    assert column_of("a", "int", 2, came, [], 0) == Column("a", "int")
    assert [Column("a", "int").came, Column("a", "int", 5_000).came] == [
        "not known",
        "1970-01-01T00:00:05+00:00",
    ]


def test_the_fields_of_a_version_without_what_is_inside_them() -> None:
    paths = {1: "id", 2: "lines.element.count", 3: "payment", 4: "payment.kind", 5: "paymentx"}
    came = {2: Came(1, (7, 8)), 3: Came(2, (8,)), 4: Came(2, (8,)), 5: Came(2, (8,))}
    assert fields_of(8, came, paths) == ("lines.element.count", "payment", "paymentx")
    assert fields_of(7, came, paths) == ("lines.element.count",)


def test_many_partitions_are_counted() -> None:
    text = bounds_text({number: (0, number) for number in range(10)})
    assert text.startswith("0: 0 to 0, 1: 0 to 1, ")
    assert text.endswith("7: 0 to 7, and 2 partitions more")
