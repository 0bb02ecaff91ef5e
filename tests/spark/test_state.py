"""A query that keeps state changes hands: its counts stay exact, whatever the earlier writer still does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.common.spark.checkpoint import Checkpoints
from tests.support.counting import Counting, exact, published
from tests.support.services import Services

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORES = {
    "the default store": {},
    "RocksDB": {"spark.sql.streaming.stateStore.providerClass": ROCKSDB},
    "RocksDB with changelogs": {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    },
}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "store",
    [
        pytest.param("the default store", marks=pytest.mark.exhaustive),
        pytest.param("RocksDB", marks=pytest.mark.exhaustive),
        # That of a process of queries.
        "RocksDB with changelogs",
    ],
)
def test_a_zombies_state_stays_its_own(
    store: str, writers: Callable[..., Counting], services: Services, configure: Any
) -> None:
    configure(STORES[store])
    first = writers()
    first.run(4)
    second = writers()
    second.run(2)
    assert (second.ran, published(services.postgres())) == ([4, 5], exact(6))
    first.run(2)
    assert (first.ran, first.refused) == ([0, 1, 2, 3, 4, 5], [4, 5])
    assert published(services.postgres()) == exact(6)
    second.run(1)
    assert published(services.postgres()) == exact(7)
    second.stop()
    third = writers()
    third.run(2)
    assert (third.ran, published(services.postgres())) == ([7, 8], exact(9))


def test_a_batch_that_was_published_and_not_completed_runs_again_and_counts_once(
    writers: Callable[..., Counting], services: Services, tmp_path: Path
) -> None:
    first = writers()
    first.run(3)
    first.stop()
    for name in ("2", ".2.crc"):
        (tmp_path / "counting" / "w1" / "commits" / name).unlink()
    second = writers()
    second.run(2)
    assert (second.ran, published(services.postgres())) == ([2, 3], exact(4))


def test_a_copy_that_was_not_finished_is_not_taken_for_one(
    writers: Callable[..., Counting], services: Services, tmp_path: Path
) -> None:
    writers().run(2)
    folder = tmp_path / "counting"
    shutil.copytree(folder / "w1", folder / "w2")
    shutil.rmtree(folder / "w2" / "state" / "0" / "0" / "_metadata")
    (folder / "w9").mkdir()
    third = writers(epoch=3)
    third.run(1)
    assert (third.ran, published(services.postgres())) == ([2], exact(3))
    assert json.loads((folder / "w3" / "sluice-copy.json").read_text())["from"] == "w1"
    left = sorted(path.name for path in folder.iterdir())
    assert left == ["w1", "w3", "w9"], "kept: what was copied, and what is a later writer's"


def test_the_plan_of_a_batch_that_one_of_several_sinks_has_comes_along(
    spark: SparkSession, writers: Callable[..., Counting], tmp_path: Path
) -> None:
    writers().run(2)
    first = tmp_path / "counting" / "w1"
    restored = Checkpoints(spark, str(tmp_path), "counting").restore("w2", ["w1"], 1, 2, stateful=True)
    assert restored.plan(2) == (first / "offsets" / "2").read_text().splitlines()
    commits = {path.name for path in (tmp_path / "counting" / "w2" / "commits").glob("[0-9]*")}
    assert commits == {"0", "1"}


def test_what_lies_there_of_a_lake_that_is_no_more_is_removed(
    writers: Callable[..., Counting], services: Services, tmp_path: Path
) -> None:
    old = tmp_path / "counting" / "w1" / "offsets"
    old.mkdir(parents=True)
    (old / "7").write_text("v1\nof another time")
    first = writers()
    first.run(1)
    assert (first.ran, published(services.postgres())) == ([0], exact(1))


def test_a_state_that_is_nowhere_is_refused_by_name(writers: Callable[..., Counting], tmp_path: Path) -> None:
    first = writers()
    first.run(2)
    first.stop()
    (tmp_path / "counting" / "w1" / "state" / "0" / "1" / "2.delta").unlink()
    with pytest.raises(LookupError, match=r"batch 1 .*w1: state/0/1: version 2"):
        writers()
