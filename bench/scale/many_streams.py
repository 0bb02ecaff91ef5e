"""What hundreds of declared streams cost Airflow's DAG processor, each of its tasks, and its pages.

    python -m bench.scale.many_streams whole_file <streams>

Prints one JSON document. The checkout's three streams are among them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.scale import declared, page
from sluice.config import folders

FEW = len(declared.KINDS)
# Figure -> the most that it may be.
GOALS = {"parse_for_task_cpu_seconds": 1.0, "whole_file_cpu_seconds": 20.0, "page_ms": 300}


def prepare() -> None:
    """Before Airflow is imported, which reads its configuration then."""
    os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="sluice-scale-airflow-"))
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    # A busy machine must not end what is to be measured.
    os.environ["AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT"] = "600"
    page.prepare()
    os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "WARNING"


def _filled() -> Any:
    from airflow.dag_processing.dagbag import BundleDagBag

    dags = folders.STREAMS.parent / "dags"
    bag = BundleDagBag(str(dags / "streams.py"), bundle_path=dags, bundle_name="dags", load_op_links=False)
    if bag.import_errors:
        raise ValueError(f"the file of DAGs cannot be read: {bag.import_errors}")
    return bag


def whole_file(names: list[str]) -> dict[str, Any]:
    """As the DAG processor, in a process that has imported Airflow: read, and write for its database."""
    # What it imports before it reads a file, and each file's own words.
    import structlog
    from airflow.dag_processing.processor import _serialize_dags

    import sluice.airflow.dags.streams  # noqa: F401

    began = time.process_time()
    bag = _filled()
    parsed = time.process_time()
    made, errors = _serialize_dags(bag, structlog.get_logger())
    if errors or len(made) < 5 * len(names):
        raise ValueError(f"{len(made)} DAGs of {len(names)} streams are written: {errors}")
    ended = time.process_time()
    return {
        "dags": len(made),
        "mb": round(sum(len(json.dumps(one.data)) for one in made) / 1e6, 1),
        "parse_cpu_seconds": round(parsed - began, 2),
        "whole_file_cpu_seconds": round(ended - began, 2),
    }


def parse_for_task(names: list[str]) -> dict[str, Any]:
    """As before a task of the last stream runs. What its process imports is the same for any number of
    streams, and told beside it."""
    from airflow.dag_processing.dagbag import BundleDagBag  # noqa: F401
    from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager

    began = time.process_time()
    import sluice.airflow.dags.streams  # noqa: F401

    imported = time.process_time() - began
    dag = f"{names[-1]}_stream"
    began = time.process_time()
    with _airflow_parsing_context_manager(dag_id=dag, task_id="consumer"):
        found = set(_filled().dags)
    if dag not in found or len(found) > 6:
        raise ValueError(f"of {dag} were read: {sorted(found)}")
    used = time.process_time() - began
    return {"imports_cpu_seconds": round(imported, 2), "parse_for_task_cpu_seconds": round(used, 2)}


@dataclass(frozen=True)
class Step:
    """``measure``: with the streams' names; ``streams``: how many the goal is for."""

    measure: Callable[[list[str]], dict[str, Any]]
    streams: int


STEPS = {
    "parse_for_task": Step(parse_for_task, 300),
    "whole_file": Step(whole_file, 300),
    "page": Step(page.page, 200),
}


def main(step: str, count: str) -> None:
    prepare()
    with tempfile.TemporaryDirectory(prefix="sluice-scale-") as root:
        names = [*declared.KINDS, *declared.write(Path(root), int(count) - FEW)]
        os.environ[folders.VARIABLE] = root
        print(json.dumps({"streams": len(names), **STEPS[step].measure(names)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
