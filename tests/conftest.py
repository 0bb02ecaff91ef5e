"""What all tests share: which of them run in one process, and where each process looks for free ports.

Generated examples are few, the same in every run, and may take their time on a busy machine; the profiles
``thorough`` and ``search`` (``--hypothesis-profile``) try many and very many, others each time.
"""

from __future__ import annotations

import gc
import os
from pathlib import PurePath

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from local.runtime.ports import FREE, RANGE_VARIABLE
from sluice.config import overrides
from tests.support import stacks

# Collecting imports some thousand modules, of which nothing is garbage.
gc.disable()

# Tests of tests/spark over queries, sinks and feeds: about as long as the others, in a Spark of their own.
QUERIES = (
    *("bucket_checkpoint", "change_queries", "feed", "files_sink", "first_batch", "hits", "hits_load"),
    *("hostile_records", "iceberg_sink", "jdbc_sink", "kafka_sink", "keys", "oversize_rows", "preview"),
    *("progress", "queries", "query_results", "state"),
)
# Path -> the group whose tests run in one process, one after the other: they share what they start.
GROUPS = {
    "tests/integration/test_wiki.py": "feeds",
    "tests/integration/test_hits.py": "feeds",
    "tests/integration": "stack",
    "tests/drills": "drills",
    **{f"tests/spark/test_{name}.py": "queries" for name in QUERIES},
    "tests/spark/test_schema_changes.py": "registry",
    "tests/spark": "spark",
    "tests/browser": "browser",
    "tests/services/kafka": "brokers",
    "tests/services/registry": "registry",
    "tests/services/catalog": "catalog",
    "tests/services/connections": "connections",
    "tests/services/s3": "s3",
}


class GroupScheduling(LoadScopeScheduling):
    """Gives a process one group of tests after the other, in their order; tests without a group one by one.

    In place of `--dist loadgroup`: pytest-xdist 3.8 marks groups in a field that pytest 9.2 no longer reads.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = PurePath(nodeid.split("::")[0])
        places = (path.as_posix() for path in (file, *file.parents))
        return next((GROUPS[place] for place in places if place in GROUPS), nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


settings.register_profile("quick", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.register_profile("search", deadline=None, max_examples=5_000)


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--hypothesis-profile", None):
        settings.load_profile("quick")
    # A person's own values are not what tests are about.
    os.environ.pop(overrides.VARIABLE, None)
    """Each worker of pytest-xdist gets a part of the free ports for itself."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker:
        workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        # A worker that replaces one that crashed has a higher number.
        number, size = int(worker.removeprefix("gw")) % workers, len(FREE) // workers
        part = FREE[number * size : (number + 1) * size]
        os.environ[RANGE_VARIABLE] = f"{part[0]}-{part[-1]}"
    elif config.getoption("numprocesses", 0):
        # It collects no tests itself.
        gc.enable()
        stacks.begin_run()


def pytest_unconfigure(config: pytest.Config) -> None:
    # Else libraries report what stays as leaked when Python ends.
    gc.unfreeze()
    if "PYTEST_XDIST_WORKER" not in os.environ and config.getoption("numprocesses", 0):
        stacks.end_run()


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the collector need not go through it again in every round, of which there
    are fewer than by default."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
