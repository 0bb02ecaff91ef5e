"""What a message says of a header line that another person wrote."""

from __future__ import annotations

import pytest

from spark_jobs.common.producer.csv import InvalidHeader, column_names

LONG = "x" * 60_000


@pytest.mark.parametrize(
    "header",
    [
        f"a,,\x1b[2J{LONG}",
        f"\x1b]0;own\x07{LONG},\x1b]0;own\x07{LONG}",
        "a\x00b,A\x00B",
        "a,,\u202eevil\x9b1m",
    ],
)
def test_it_is_escaped_and_bounded(header: str) -> None:
    with pytest.raises(InvalidHeader) as refusal:
        column_names(header, "s3://source/x.csv")
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 700
