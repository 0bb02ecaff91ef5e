"""Which files of a checkpoint a successor needs: names in, names out."""

from __future__ import annotations

import json

import pytest

from spark_jobs.common.spark.checkpoint import (
    CheckpointCorrupted,
    chain,
    files_to_copy,
    may_vanish,
    store_folders,
)
from tests.support.raising import raising


@pytest.mark.parametrize(
    ("names", "version", "expected"),
    [
        ([], 0, []),
        (["1.delta", "2.delta"], 0, []),
        (["1.delta", "2.delta", "3.delta"], 2, ["2.delta", "1.delta"]),
        (["1.delta", "2.delta", "2.snapshot", "3.delta", "4.delta"], 4, ["4.delta", "3.delta", "2.snapshot"]),
        (["2.snapshot", "3.delta", "4.snapshot", "4.delta"], 4, ["4.snapshot"]),
        (["2.snapshot", "3.delta", "4.snapshot", "4.delta"], 3, ["3.delta", "2.snapshot"]),
        (["1.zip", "2.zip", "000008-x.sst", "schema"], 2, ["2.zip"]),
        (["1.changelog", "2.changelog", "2.zip", "3.changelog"], 3, ["3.changelog", "2.zip"]),
        (["9.delta", "10.delta", "9.snapshot", "11.delta"], 11, ["11.delta", "10.delta", "9.snapshot"]),
        ([".3.delta.4b-1.tmp", "3.delta.crc", "1.snapshot", "2.delta"], 2, ["2.delta", "1.snapshot"]),
    ],
)
def test_a_version_is_its_newest_base_and_what_came_since(
    names: list[str], version: int, expected: list[str]
) -> None:
    assert chain(names, version) == expected


@pytest.mark.parametrize(
    ("names", "version", "words"),
    [
        ([], 1, "version 1"),
        (["1.delta", "3.delta"], 3, "version 2"),
        (["2.delta", "3.delta"], 3, "version 1"),
        (["1.zip", "2.zip"], 3, "version 3"),
        ([".2.delta.4b-1.tmp", "1.delta"], 2, "version 2"),
    ],
)
def test_a_hole_in_a_version_is_named(names: list[str], version: int, words: str) -> None:
    with raising(CheckpointCorrupted, words):
        chain(names, version)


def metadata(*stores: tuple[str, int]) -> str:
    info = [{"storeName": name, "numColsPrefixKey": 0, "numPartitions": count} for name, count in stores]
    return "v1\n" + json.dumps({"operatorInfo": {"operatorId": 0}, "stateStoreInfo": info})


def test_an_operator_says_which_stores_it_has() -> None:
    assert store_folders(metadata(("default", 2)), "x") == ["0", "1"]
    assert store_folders(metadata(("left", 1), ("right", 2)), "x") == ["0/left", "0/right", "1/right"]


@pytest.mark.parametrize(
    "text", ["", "v1", "v1\n{}", "v1\n[]", "v2\n" + metadata(("default", 1))[3:], "v1\n{"]
)
def test_metadata_of_another_form_are_refused_by_name(text: str) -> None:
    with raising(CheckpointCorrupted, "state/0/_metadata/metadata"):
        store_folders(text, "state/0/_metadata/metadata")


STORE = "state/0/0"
RAN_TO_3 = [
    *(f"offsets/{n}" for n in range(5)),
    *(f"commits/{n}" for n in range(4)),
    *(f"{STORE}/{n}.delta" for n in range(1, 6)),
    f"{STORE}/_metadata/schema",
    "state/0/_metadata/metadata",
    f"{STORE}/.6.delta.f00-0.tmp",
    "metadata",
    "sources/0/0",
    "sluice-copy.json",
]


def test_a_copy_takes_what_was_published_and_nothing_newer() -> None:
    assert sorted(files_to_copy(RAN_TO_3, [STORE], batch=3, started=3)) == sorted(
        [
            *("offsets/2", "offsets/3", "commits/2", "commits/3", "sources/0/0"),
            *(f"{STORE}/{n}.delta" for n in (1, 2, 3, 4)),
            *(f"{STORE}/_metadata/schema", "state/0/_metadata/metadata"),
        ]
    )


def test_a_batch_that_was_not_completed_runs_again_from_the_version_before_it() -> None:
    names = [name for name in RAN_TO_3 if name != "commits/3"]
    found = files_to_copy(names, [STORE], batch=3, started=3)
    assert [name for name in found if "offsets" in name] == ["offsets/2", "offsets/3"]
    assert [name for name in found if "commits" in name] == ["commits/2"]
    assert f"{STORE}/3.delta" in found
    assert f"{STORE}/4.delta" not in found


def test_a_plan_that_one_sink_has_carried_out_comes_along() -> None:
    found = files_to_copy(RAN_TO_3, [STORE], batch=3, started=4)
    assert [name for name in found if "offsets" in name] == ["offsets/3", "offsets/4"]
    assert [name for name in found if "commits" in name] == ["commits/2", "commits/3"]
    assert f"{STORE}/4.delta" in found
    assert f"{STORE}/5.delta" not in found
    uncommitted = [name for name in RAN_TO_3 if name != "commits/3"]
    assert f"{STORE}/4.delta" in files_to_copy(uncommitted, [STORE], batch=3, started=4)


def test_the_first_batch_can_be_copied_and_even_a_plan_alone() -> None:
    found = files_to_copy(RAN_TO_3, [STORE], batch=0, started=0)
    assert {"offsets/0", "commits/0", f"{STORE}/1.delta"} <= set(found)
    assert not any(name.endswith(("/1", "2.delta")) for name in found)
    alone = files_to_copy(["offsets/0"], [], batch=-1, started=0)
    assert alone == ["offsets/0"]


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("offsets/3", "offsets/3"),
        ("offsets/2", "offsets/2"),
        (f"{STORE}/4.delta", f"{STORE}: version 4"),
        (f"{STORE}/1.delta", f"{STORE}: version 1"),
    ],
)
def test_what_is_missing_is_named(gone: str, words: str) -> None:
    with raising(CheckpointCorrupted, words):
        files_to_copy([name for name in RAN_TO_3 if name != gone], [STORE], batch=3, started=3)


def test_a_store_without_any_file_is_missing() -> None:
    with raising(CheckpointCorrupted, "state/0/1", "version 4"):
        files_to_copy(RAN_TO_3, [STORE, "state/0/1"], batch=3, started=3)


def test_a_source_with_a_log_of_its_own_is_refused() -> None:
    with raising(CheckpointCorrupted, "sources/1/7"):
        files_to_copy([*RAN_TO_3, "sources/1/0", "sources/1/7"], [STORE], batch=3, started=3)


def test_only_rocksdbs_own_files_may_vanish() -> None:
    assert may_vanish("state/0/0/SSTs/000008-x.sst")
    assert may_vanish("state/0/0/logs/1.log")
    assert not any(map(may_vanish, RAN_TO_3))


def test_the_start_of_icebergs_source_is_copied_for_a_first_batch_that_runs_again() -> None:
    began = [*RAN_TO_3, "sources/0/offsets/0"]
    assert "sources/0/offsets/0" in files_to_copy(began, [STORE], batch=3, started=3)
    assert "sources/0/offsets/0" in files_to_copy(["offsets/0", "sources/0/offsets/0"], [], -1, 0)
    with raising(CheckpointCorrupted, "sources/0/offsets/1"):
        files_to_copy([*began, "sources/0/offsets/1"], [STORE], batch=3, started=3)
