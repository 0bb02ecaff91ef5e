"""Pinning a load's objects, and listing versions; S3's answers by botocore's own stubber."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from sluice.clients.s3.objects import Bucket, Entry, ObjectVersion
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable
from tests.support.raising import raising

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def s3() -> Any:
    client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    with Stubber(client) as stub:
        yield client, stub
        stub.assert_no_pending_responses()


def head(stub: Stubber, key: str, version: str | None) -> None:
    answer: dict[str, Any] = {"ETag": '"e1"', "ContentLength": 5}
    if version:
        answer["VersionId"] = version
    stub.add_response("head_object", answer, {"Bucket": "b", "Key": key})


def test_a_prefix_means_its_csv_objects_pinned_and_sorted(s3: Any) -> None:
    client, stub = s3
    names = [("p/z.csv.gz", "v2"), ("p/a.csv", "v1"), ("p/a.csv", "v0"), ("p/readme.txt", "v"), ("p/", "v")]
    versions = [
        {"Key": name, "VersionId": v, "ETag": '"e1"', "Size": 5, "IsLatest": v != "v0"} for name, v in names
    ]
    gone = {"Key": "p/gone.csv", "VersionId": "v", "IsLatest": True}
    deleted = {**versions[0], "Key": "p/gone.csv", "IsLatest": False}
    stub.add_response(
        "list_object_versions",
        {"Versions": [*versions, deleted], "DeleteMarkers": [gone]},
        {"Bucket": "b", "Prefix": "p/"},
    )
    found = Bucket(client, "b").resolve("p/")
    assert [(o.key, o.version_id) for o in found] == [("p/a.csv", "v1"), ("p/z.csv.gz", "v2")]
    assert (found[0].etag, found[0].size) == ("e1", 5)


def test_keys_win_over_the_prefix_and_count_once(s3: Any) -> None:
    client, stub = s3
    head(stub, "k.csv", "v")
    assert len(Bucket(client, "b").resolve("p/", ["k.csv", "k.csv"])) == 1


@pytest.mark.parametrize(
    "key",
    ["other/a.csv", "a.csv", "taxi", "taxi/../other/a.csv", "taxi/./a.csv", "taxi/..", "taxi/a\n.csv",
     "taxi/\x1b[2Ja.csv", "taxi/a\x85b.csv", "taxi/a\u2028b.csv", "taxi/\ud800.csv", "/taxi/a.csv"],
)  # fmt: skip
def test_a_key_that_the_stream_does_not_declare_is_refused_before_s3_is_asked(s3: Any, key: str) -> None:
    bucket = Bucket(s3[0], "b").within("taxi/")
    asks: list[Callable[[], Any]] = [
        lambda: bucket.resolve("taxi/", [key]),
        lambda: bucket.resolve(key),
        lambda: bucket.head(key),
        lambda: bucket.current(key),
    ]
    for ask in asks:
        with raising(Refused, "'taxi/'", repr(key), "[csv] prefix", "Fix: ") as refusal:
            ask()
        assert refusal.value.code is ErrorCode.INVALID_PARAMETER
        assert str(refusal.value).isprintable()


def test_a_key_of_a_listing_that_could_not_be_named_is_refused(s3: Any) -> None:
    client, stub = s3
    stub.add_response("list_object_versions", {"Versions": [listed("taxi/a\nSLU-000.csv")]})
    with raising(Refused, repr("taxi/a\nSLU-000.csv")):
        Bucket(client, "b").within("taxi/").resolve("taxi/2020/")


# As macOS names a screenshot; no-break, ideographic, a joiner, a byte order mark.
@pytest.mark.parametrize("character", ["\u202f", "\xa0", "\u3000", "\u200d", "\ufeff", "ä"])
def test_a_key_may_have_what_file_names_have(s3: Any, character: str) -> None:
    client, stub = s3
    bucket, key = Bucket(client, "b").within("taxi/"), f"taxi/at 3.45{character}PM.csv"
    stub.add_response("list_object_versions", {"Versions": [listed(key)]})
    assert [version.key for version in bucket.resolve("taxi/")] == [key]
    head(stub, key, "v")
    assert bucket.head(key).key == key


def test_a_key_that_could_not_be_named_is_refused_only_if_it_would_be_loaded(s3: Any) -> None:
    client, stub = s3
    bad, good = "taxi/a\n.csv", listed("taxi/2020/a.csv")
    older = {**listed(bad), "IsLatest": False}
    bucket = Bucket(client, "b").within("taxi/")
    stub.add_response("list_object_versions", {"Versions": [older, good]})
    assert [version.key for version in bucket.resolve("taxi/")] == [good["Key"]]
    stub.add_response("list_object_versions", {"Versions": [listed(bad), good]})
    found = bucket.current("taxi/", lambda key: key.startswith("taxi/2020/"))
    assert [version.key for version in found] == [good["Key"]]


def listed(key: str) -> dict[str, Any]:
    return {"Key": key, "VersionId": "v", "ETag": '"e"', "Size": 5, "IsLatest": True}


@pytest.mark.parametrize("version", [None, "null"])
def test_without_versions_the_etag_is_the_identity(s3: Any, version: str | None) -> None:
    client, stub = s3
    head(stub, "k.csv", version)
    found = Bucket(client, "b").head("k.csv")
    assert found.version_id is None
    assert found.source_id == ObjectVersion("b", "k.csv", None, "e1", 99).source_id
    assert found.source_id != ObjectVersion("b", "k.csv", None, "e2", 99).source_id


def test_an_object_that_does_not_exist_is_named(s3: Any) -> None:
    client, stub = s3
    stub.add_client_error("head_object", "404", http_status_code=404)
    with raising(Missing, "s3://b/k.csv"):
        Bucket(client, "b").resolve("p/", ["k.csv"])


def test_an_empty_prefix_is_named(s3: Any) -> None:
    client, stub = s3
    stub.add_response("list_object_versions", {})
    with raising(Missing, "s3://b/p/"):
        Bucket(client, "b").resolve("p/")


def test_another_suffix_is_refused_before_s3_is_asked(s3: Any) -> None:
    with raising(Refused, "x.parquet", ".csv"):
        Bucket(s3[0], "b").resolve("p/", ["x.parquet"])


@pytest.mark.parametrize(("code", "kind"), [("AccessDenied", Refused), ("SlowDown", Unreachable)])
def test_other_answers_are_told_apart(s3: Any, code: str, kind: type[Exception]) -> None:
    client, stub = s3
    stub.add_client_error("list_object_versions", code, http_status_code=400)
    with raising(kind, code):
        list(Bucket(client, "b").entries("p/"))


def test_rows_are_counted_of_the_pinned_version(s3: Any) -> None:
    client, stub = s3
    body = b"a\n1\n2\n"
    stub.add_response(
        "get_object",
        {"Body": StreamingBody(io.BytesIO(body), len(body)), "ContentLength": len(body)},
        {"Bucket": "b", "Key": "k.csv", "VersionId": "v7"},
    )
    assert Bucket(client, "b").data_rows(ObjectVersion("b", "k.csv", "v7", "e", 6)) == 2


def test_every_page_of_versions_and_markers_counts(s3: Any) -> None:
    client, stub = s3
    version = {"Key": "k", "VersionId": "1", "ETag": '"e"', "Size": 3, "LastModified": WHEN}
    stub.add_response(
        "list_object_versions",
        {
            "IsTruncated": True,
            "NextKeyMarker": "k",
            "NextVersionIdMarker": "1",
            "Versions": [{**version, "IsLatest": True}],
        },
    )
    stub.add_response(
        "list_object_versions",
        {
            "IsTruncated": False,
            "Versions": [{**version, "IsLatest": False}],
            "DeleteMarkers": [{"Key": "m", "VersionId": "2", "IsLatest": True, "LastModified": WHEN}],
        },
    )
    entries = list(Bucket(client, "b").entries("p/"))
    assert entries[:2] == [Entry("k", latest, False, "e", 3, WHEN) for latest in (True, False)]
    assert entries[2] == Entry("m", True, True, "", 0, WHEN)
