"""Every failure that a user meets has a code, and every code an entry in docs/errors.md."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.core.error_codes import PERMANENT, ErrorCode, code_in, code_of, coded
from sluice.supervision.rules.status import LEFT_ALONE
from tests.support.alerting import ALERTING
from tests.unit.docs.test_docs import ERRORS, REPO, source_files

PRODUCT = ("local", "plugins", "spark_jobs", "dags")
# Caught by their own module or a caller of it: a user meets another class.
INTERNAL = {
    "sluice.airflow.sinks.NotAsDeclared",
    "sluice.airflow.triggers.idle.base.WorkNeeded",
    "local.replay.frames.BadPosition",  # the answer 400 of the replay server
    "sluice.clients.s3.unpacking.CorruptZstd",  # named as a corrupt object
    "sluice.clients.s3.unpacking.OtherFormat",
    "sluice.core.csv.columns.kinds.UnsupportedType",  # a ConfigError of the stream
    "sluice.core.csv.columns.patterns.UnknownPattern",
    "sluice.core.csv.records.blocks.WrongQuotes",  # named as a corrupt object
    "sluice.core.csv.records.line_ends.MixedLineEnds",  # so too
    "sluice.core.csv.records.line_ends.UncertainRecords",
    "sluice.core.csv.inference.NotInferred",  # a UsageError of the command
    "sluice.core.decoding.avro.columnar.evolution.Unusual",
    "sluice.core.decoding.avro.reference.layout._Cut",
    "sluice.core.decoding.avro.reference.layout._Deep",
    "sluice.core.decoding.avro.reference.layout._Other",
    "sluice.core.decoding.avro.reference.resolution.Unresolvable",
    "sluice.core.decoding.protobuf.messages.WrittenAgain",  # read by the reference
    "sluice.core.decoding.protobuf.well_known.OtherMessage",  # a NotCompiled
    "sluice.core.decoding.filling.from_json.NotWritten",  # the reason why a further field stays
    "sluice.core.decoding.filling.from_json.Undecided",
    "sluice.core.decoding.decoder.Malformed",  # its text is the reason of a rejected record
    "sluice.core.tables.file_removal.ClockChanged",  # the reason why remove_files deletes nothing
    "sluice.cli.airflow_api.AirflowError",
    "spark_jobs.common.feed.client._Refused",
    "spark_jobs.common.feed.reader._Stopped",
    "spark_jobs.common.feed.transaction.EpochEnded",  # raised on as Fenced or Undelivered
    "spark_jobs.common.sinks.base.TransientError",  # its retry policy raises SinkWriteFailed
}


def test_codes_are_unique_and_titled() -> None:
    assert len(set(ErrorCode)) == len(ErrorCode.__members__)
    assert len({code.summary for code in ErrorCode}) == len(ErrorCode)
    assert all(re.fullmatch(r"SLU-[1-8]\d\d", code) and code.summary for code in ErrorCode)
    assert set(ErrorCode) >= PERMANENT


def test_every_code_is_set_somewhere() -> None:
    texts = [file.read_text() for file in source_files(*PRODUCT) if file.name != "error_codes.py"]
    product = "\n".join(texts)
    for code in ErrorCode:
        by_health = code.name.startswith("HEALTH_") and 'ErrorCode[f"HEALTH_{' in product
        used = re.search(rf"ErrorCode\.{code.name}\b", product) or f'"{code.value}"' in product
        assert used or by_health, code.name


def test_every_health_status_that_fails_a_task_has_a_code() -> None:
    of_health = {name.removeprefix("HEALTH_") for name in ErrorCode.__members__ if name.startswith("HEALTH_")}
    assert of_health == {health.name for health in ALERTING | LEFT_ALONE}


def test_every_code_has_one_entry_in_the_docs() -> None:
    rows = re.findall(r"^\| `(SLU-\d{3})` \| ([^|]+?) \|(.+)\|$", ERRORS.read_text(), re.M)
    assert [row[:2] for row in rows] == [(code.value, code.summary) for code in ErrorCode]
    assert all(cell.strip() for _, _, rest in rows for cell in rest.split("|"))


@pytest.mark.parametrize(
    "page", sorted([REPO / "README.md", *(REPO / "docs").glob("*.md")]), ids=lambda page: page.name
)
def test_every_code_in_the_docs_exists(page: Path) -> None:
    said = set(re.findall(r"SLU-\d{3}", page.read_text()))
    assert said <= {code.value for code in ErrorCode}


def exceptions() -> Iterator[str]:
    """The product's exception classes, as module.Class."""
    classes: dict[str, tuple[str, list[str]]] = {}
    for file in source_files(*PRODUCT):
        module = ".".join(file.relative_to(REPO).with_suffix("").parts).removeprefix("plugins.")
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                classes[f"{module}.{node.name}"] = (node.name, bases)
    known = {"Exception", "RuntimeError", "ValueError", "LookupError", "OSError", "TypeError"}
    while found := {name for name, bases in classes.values() if known & set(bases)} - known:
        known |= found
    yield from (path for path, (_, bases) in classes.items() if known & set(bases))


def test_every_exception_that_a_user_meets_has_a_code() -> None:
    found = set(exceptions())
    assert len(found) > 20
    assert found >= INTERNAL
    for path in sorted(found - INTERNAL):
        module, _, name = path.rpartition(".")
        code = getattr(getattr(importlib.import_module(module), name), "code", None)
        assert code in list(ErrorCode), f"{path} has no code"


def test_an_exception_of_another_library_has_the_code_of_a_failed_process() -> None:
    class Coded(Exception):
        code = 404

    assert code_of(KeyError("x")) is code_of(Coded()) is ErrorCode.PROCESS_FAILED
    assert code_in("stream x: SLU-402 then SLU-403") is ErrorCode.BATCH_NOT_VERIFIED
    assert code_in("SLU-999 and XSLU-402") is None


def test_a_builtin_exception_can_have_a_code() -> None:
    error = coded(ErrorCode.TOPIC_NOT_FOUND, LookupError("no topic"))
    assert type(error) is LookupError
    assert code_of(error) is ErrorCode.TOPIC_NOT_FOUND
