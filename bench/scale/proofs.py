"""Proofs of a synthetic table: what ``validate`` and ``verify_table`` do with its files, in a process that
has what a task's process has.

    python -m bench.scale.proofs validate <folder> <rows>

Prints one JSON document: memory in MB (resident, the process's peak), and rows per CPU second.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from bench.scale import synthetic

# What a task's process has loaded before its step begins.
from sluice.airflow.operators.load import validate as _validate_operator  # noqa: F401
from sluice.airflow.operators.maintenance import reconciliation as _verify_operator  # noqa: F401
from sluice.clients.lake.reading import files
from sluice.core.offsets.ranges import OffsetRanges
from sluice.ledger.documents import Ledger
from sluice.loads.sources.base import Counted, Source
from sluice.loads.verification import checks
from sluice.maintenance.reconciliation.table_contents import TableContents
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3


def memory_mb() -> dict[str, int]:
    """``now``: resident; ``peak``: the most that was."""
    text = Path("/proc/self/status").read_text()
    keys = {"now": "VmRSS", "peak": "VmHWM"}
    found = {name: re.search(rf"{key}:\s+(\d+) kB", text) for name, key in keys.items()}
    return {name: int(match[1]) // 1024 for name, match in found.items() if match}


def validate(folder: Path, rows: int) -> None:
    """As one load of all rows: offsets, and the rows of each source. Raises ValueError unless it passes."""
    lake, table = synthetic.opened(folder)
    tasks = files.committed_since(table, 0)
    expected = OffsetRanges.from_ends({}, synthetic.ends(rows))
    names = synthetic.source_ids()
    stats = files.file_stats(table, tasks)
    load = checks.LoadFiles(expected, names, table, tasks, stats, lake.table(lakes.QUARANTINE), [])
    check = checks.check_offsets(load)
    messages = [check.verification.message()] if not check.verification.is_ok else []
    for number, name in enumerate(names):
        source = cast("Source", SimpleNamespace(COUNTED=Counted.ROWS, name=name, source_id=name))
        of_source = synthetic.rows_of(number, rows)
        found = checks.check_source(cast("Any", None), load, check, source, of_source)
        messages += [] if found.is_ok else [found.message()]
    if messages or check.read != len(tasks):
        raise ValueError(
            f"the synthetic load does not pass, or {check.read} of its files were read: {messages}"
        )


def verify_table(folder: Path, rows: int) -> None:
    """All of the table, as without an earlier run. Raises ValueError unless it passes."""
    lake, _ = synthetic.opened(folder)
    ledger = Ledger(MemoryS3().as_client(), "s3://w/ledger", "nyc_taxi")

    def no_log(name: str) -> Any:
        raise ValueError(f"{name}: offsets are missing")

    found, verified = TableContents(lake, lakes.TABLE, lakes.QUARANTINE, ledger, no_log).verify(None, None)
    if found or verified is None or verified.count != rows or verified.read != verified.files:
        raise ValueError(f"the synthetic table does not pass, or was not read: {found}, {verified}")


STEPS: dict[str, Callable[[Path, int], None]] = {"validate": validate, "verify_table": verify_table}


def main(step: str, folder: str, rows: str) -> None:
    before, began, cpu = memory_mb(), time.monotonic(), time.process_time()
    STEPS[step](Path(folder), int(rows))
    used = time.process_time() - cpu
    figures = {
        "rows": int(rows),
        "peak_mb": memory_mb()["peak"],
        "mb_before": before["now"],
        "seconds": round(time.monotonic() - began, 2),
        "cpu_seconds": round(used, 2),
        "rows_per_cpu_second": round(int(rows) / used),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
