"""The measured proofs read each row, and fail for a table that lost one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.scale import declared, history, proofs, synthetic
from bench.scale.__main__ import GOALS, is_reached, measure
from local.base import REPO
from sluice.config import folders, streams
from tests.support import lake as lakes
from tests.support.raising import raising


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(synthetic, "BATCH_ROWS", 400)
    synthetic.write(tmp_path, 1003)
    return tmp_path


@pytest.mark.parametrize("step", proofs.STEPS)
def test_the_proofs_of_a_synthetic_table_pass(folder: Path, step: str) -> None:
    proofs.STEPS[step](folder, 1003)


@pytest.mark.parametrize("step", proofs.STEPS)
@pytest.mark.parametrize("offset", [0, 177])
def test_a_row_that_is_missing_or_there_twice_fails(folder: Path, step: str, offset: int) -> None:
    table = lakes.empty(folder).catalog.load_table(lakes.TABLE)
    row = table.scan(f"_kafka_partition = 2 and _kafka_offset = {offset}").to_arrow()
    assert row.num_rows == 1
    said = lakes.summary("batch", 1, synthetic.ends(1003), ranges={2: (0, 251)})
    if offset:
        table.append(row, snapshot_properties=said)
    else:
        table.delete("_kafka_partition = 2 and _kafka_offset = 0", snapshot_properties=said)
    with raising(ValueError, "offsets are missing" if (step, offset) == ("verify_table", 0) else "1 "):
        proofs.STEPS[step](folder, 1003)


def test_goals_are_at_most_or_at_least() -> None:
    assert [is_reached("peak_mb", value) for value in (512, 513)] == [True, False]
    assert [is_reached("rows_per_cpu_second", value) for value in (5e6, 4e6)] == [True, False]


def test_what_is_left_of_many_batches_is_what_is_left_of_few() -> None:
    found = history.history(few=200, many=400)
    assert found["batches"]["200"] == found["batches"]["400"] > 0
    assert is_reached("objects_left_ratio", found["objects_left_ratio"])


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", proofs.STEPS)
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, step: str) -> None:
    """By 20 bytes a row, a third of what lists of integers take, it would be 100 MB."""
    peaks = []
    for rows in (1_000_000, 6_000_000):
        folder = tmp_path / str(rows)
        synthetic.write(folder, rows)
        command = [sys.executable, "-m", "bench.scale.proofs", step, str(folder), str(rows)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd=REPO)
        peaks.append(json.loads(answer.stdout.splitlines()[-1])["peak_mb"])
    assert peaks[1] - peaks[0] < 50, peaks


def test_copies_of_the_streams_are_valid_streams_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = declared.write(tmp_path, 7)
    monkeypatch.setenv(folders.VARIABLE, str(tmp_path))
    found = streams.load_valid()
    assert (len(set(names)), found.reasons) == (7, [])
    assert {spec.name for spec in found.specs} == {*names, *declared.KINDS}


@pytest.mark.parametrize("step", ["parse_for_task", "whole_file"])
def test_the_dags_of_many_streams_are_measured(step: str) -> None:
    found = measure("many_streams", step, "6")
    assert found["streams"] == 6
    (figure,) = GOALS.keys() & found.keys()
    assert found[figure] > 0
