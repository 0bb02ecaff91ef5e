"""A key may have any character."""

from __future__ import annotations

import pytest

from sluice.clients.s3.requests import split, split_prefix


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://source/rides/a.csv", ("source", "rides/a.csv")),
        ("s3a://source/a#1?b=c%20d.csv", ("source", "a#1?b=c%20d.csv")),
        ("s3://source//a//b/", ("source", "/a//b/")),
        ("s3://source/a\nb", ("source", "a\nb")),
        ("s3://source", ("source", "")),
    ],
)
def test_an_address_is_a_bucket_and_a_key(uri: str, expected: tuple[str, str]) -> None:
    assert split(uri) == expected


def test_a_folder_has_no_slashes_around_it() -> None:
    assert split_prefix("s3://warehouse/a/ledger/") == ("warehouse", "a/ledger")


@pytest.mark.parametrize("uri", ["file:///a", "source/a", "s3:///a", "https://source/a"])
def test_another_address_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="is no S3 address"):
        split(uri)
