"""`sluice put` uploads a file as one version, or says in one line why not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from sluice.cli import put
from sluice.cli.base import UsageError
from sluice.cli.installation import Installation


class FakeS3:
    """Keeps what is put; with an error code, refuses it."""

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal
        self.objects: dict[tuple[str, str], bytes] = {}

    def put_object(self, Bucket: str, Key: str, Body: Any) -> dict[str, str]:  # noqa: N803
        if self.refusal:
            raise ClientError({"Error": {"Code": self.refusal}}, "PutObject")
        self.objects[Bucket, Key] = Body.read()
        return {"VersionId": "v1"}


def stack(s3: FakeS3, is_running: bool = True) -> Installation:
    systems = SimpleNamespace(platform=SimpleNamespace(source=SimpleNamespace(bucket="source")))
    fake = SimpleNamespace(is_running=lambda: is_running, systems=lambda role: systems, source_s3=lambda: s3)
    return cast("Installation", fake)


def test_a_file_is_uploaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, s3 = tmp_path / "1.csv", FakeS3()
    file.write_bytes(b"a,b\n1,2\n")
    assert put.main(stack(s3), file, "rides/1.csv") == 0
    assert s3.objects == {("source", "rides/1.csv"): b"a,b\n1,2\n"}
    assert capsys.readouterr().out == "s3://source/rides/1.csv: 8 bytes, version v1\n"


def test_it_says_why_it_uploads_nothing(tmp_path: Path) -> None:
    file, missing = tmp_path / "1.csv", tmp_path / "2.csv"
    file.touch()
    for found, path, key, message in (
        (stack(FakeS3()), file, "", "the key is empty"),
        (stack(FakeS3()), missing, "rides/2.csv", "2.csv is no file"),
        (stack(FakeS3(), is_running=False), file, "rides/1.csv", "the stack does not run"),
        (
            stack(FakeS3("AccessDenied")),
            file,
            "rides/1.csv",
            "s3://source/rides/1.csv cannot be written",
        ),
    ):
        with pytest.raises(UsageError, match=message):
            put.main(found, path, key)
