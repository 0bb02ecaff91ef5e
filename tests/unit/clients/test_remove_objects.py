"""The process that deletes objects: its requests, and how it ends."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from sluice.clients import remove_objects
from sluice.clients.errors import Refused, Unreachable
from sluice.clients.remove_objects import BATCH, main, remove
from sluice.model import exits
from sluice.model.spec.platform import DIRECTORY_VARIABLE
from tests.support.memory_s3 import error
from tests.support.raising import raising

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class Deleting:
    """An S3 that deletes all but ``refused`` (key -> S3's code), or answers ``fails`` to everything."""

    def __init__(self, refused: dict[str, str] | None = None, fails: str = "") -> None:
        self.refused, self.fails = refused or {}, fails
        self.requests: list[list[str]] = []

    def delete_objects(self, **given: Any) -> dict[str, Any]:
        if self.fails:
            raise error(self.fails, "DeleteObjects")
        keys = [item["Key"] for item in given["Delete"]["Objects"]]
        assert set(given["Delete"]["Objects"][0]) == {"Key"}, "a version would be gone for good"
        self.requests.append(keys)
        refused = [{"Key": k, "Code": self.refused[k], "Message": "no"} for k in keys if k in self.refused]
        return {"Errors": refused} if refused else {}

    def as_client(self) -> S3Client:
        return cast("S3Client", self)


def test_a_thousand_per_request() -> None:
    s3 = Deleting()
    keys = [f"k{number}" for number in range(2 * BATCH + 1)]
    remove(s3.as_client(), "w", keys)
    assert [len(request) for request in s3.requests] == [BATCH, BATCH, 1]
    assert [key for request in s3.requests for key in request] == keys


@pytest.mark.parametrize(
    ("s3", "expected", "words"),
    [
        (Deleting({"b": "AccessDenied"}), Refused, ("s3://w/b", "AccessDenied", "s3:DeleteObject")),
        (Deleting({"b": "SlowDown"}), Unreachable, ("s3://w/b", "SlowDown")),
        (Deleting(fails="AccessDenied"), Refused, ("s3://w",)),
        (Deleting(fails="InternalError"), Unreachable, ("s3://w",)),
    ],
)
def test_what_is_not_deleted_is_an_error(
    s3: Deleting, expected: type[Exception], words: tuple[str, ...]
) -> None:
    with raising(expected, *words):
        remove(s3.as_client(), "w", ["a", "b"])


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Deleting], int]:
    def running(s3: Deleting) -> int:
        monkeypatch.setattr(remove_objects, "connect", lambda login: s3)
        monkeypatch.setattr(remove_objects.platforms, "load", lambda role: SimpleNamespace(s3=role))
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{json.dumps(k)}\n" for k in ("a\nb", "ü"))))
        return main("w")

    return running


def test_keys_may_hold_any_text(run: Callable[[Deleting], int]) -> None:
    s3 = Deleting()
    assert run(s3) == 0
    assert s3.requests == [["a\nb", "ü"]]


@pytest.mark.parametrize(
    ("fails", "code", "text"), [("AccessDenied", exits.CONFIGURATION, "SLU-212"), ("SlowDown", 1, "SLU-211")]
)
def test_the_exit_code_says_whether_another_try_may_succeed(
    run: Callable[[Deleting], int], fails: str, code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Deleting(fails=fails)) == code
    assert capsys.readouterr().err.startswith(text)


def test_without_a_platform_file_of_its_role_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    assert main("w") == exits.CONFIGURATION
    said = capsys.readouterr().err
    assert said.startswith("SLU-101")
    assert "maintenance.toml" in said
