"""The properties of a snapshot's summary: named in one place, and read as they are written."""

from __future__ import annotations

import re
from pathlib import Path

from sluice.core.tables import summary
from sluice.core.tables.summary import StreamPart, of_stream

ROOT = Path(__file__).parents[4]
NAMES = {
    name
    for value in vars(summary).values()
    for name in (value if isinstance(value, tuple) else (value,))
    if isinstance(name, str) and re.fullmatch(r"sluice\.[a-z-]+", name)
}


def test_no_other_product_file_has_a_property_of_a_summary() -> None:
    assert len(NAMES) > 20
    literal = re.compile(rf"""["'](?:{"|".join(map(re.escape, NAMES))})["']""")
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for folder in ("plugins", "spark_jobs", "local", "dags", "bench")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != Path(summary.__file__)
        for match in literal.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_part_is_read_as_it_was_written() -> None:
    part = StreamPart("T", {1: 5, 0: 0}, {0: 7, 1: 9}, '{"a": [[0, 3]]}', recorded=10, unrecorded=2)
    written = part.properties()
    assert StreamPart.of(written) == part
    assert written["sluice.start-offsets"] == '{"0": 0, "1": 5}'
    assert written["sluice.unrecorded-batches"] == "2"


def test_maintenance_says_nothing_of_the_stream() -> None:
    said = StreamPart("T", {}, {}).properties()
    assert of_stream([{"operation": "replace"}, said]) is said
    assert of_stream([]) == {}
