"""Folders as Hive names them; that a reader finds the values again, tests/spark/test_files_sink.py shows."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from spark_jobs.common.sinks.parquet_folders import folder


def test_columns_come_in_their_order() -> None:
    assert folder(["zipcode", "day"], ["10115", "2026-01-31"]) == "zipcode=10115/day=2026-01-31/"
    assert folder(["day", "zipcode"], ["2026-01-31", "10115"]) == "day=2026-01-31/zipcode=10115/"
    assert folder([], []) == ""


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_folder_cannot_tell_null_from_an_empty_text(nothing: str | None) -> None:
    assert folder(["zipcode"], [nothing]) == "zipcode=__HIVE_DEFAULT_PARTITION__/"


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("a/b", "a%2Fb"),
        ("a=b", "a%3Db"),
        ("50%", "50%25"),
        ("12:30", "12%3A30"),
        ("a\\b", "a%5Cb"),
        ("{[^]", "%7B%5B%5E%5D"),
        ("\"#'*?", "%22%23%27%2A%3F"),
        ("a\x01\n\x1f\x7fb", "a%01%0A%1F%7Fb"),
        ("..", ".."),
    ],
)
def test_what_hive_cannot_have_in_a_name_is_escaped(value: str, escaped: str) -> None:
    assert folder(["zipcode"], [value]) == f"zipcode={escaped}/"


@pytest.mark.parametrize("value", ["a b", "żółć", "a+b", "x}y", "~-_.!,;@&$()<>|`", "日本"])
def test_what_hive_can_have_stays_as_it_is(value: str) -> None:
    assert folder(["zipcode"], [value]) == f"zipcode={value}/"


def test_two_values_never_share_a_folder_and_none_leads_out_of_it() -> None:
    values = [chr(code) for code in range(1, 0x180)] + ["%2F", "a/../b", "a%2F..%2Fb", "%3D", "%3d"]
    folders = [folder(["zipcode"], [value]) for value in values]
    assert len(set(folders)) == len(values)
    for value, made in zip(values, folders, strict=True):
        assert made.count("/") == 1
        assert unquote(made) == f"zipcode={value}/"


def test_a_column_s_name_is_escaped_as_well_and_each_has_a_value() -> None:
    assert folder(["a=b"], ["c"]) == "a%3Db=c/"
    for columns, values in ((["a", "b"], ["c"]), (["a"], ["c", "d"])):
        with pytest.raises(ValueError):  # noqa: PT011  any: which it is says zip
            folder(columns, values)
