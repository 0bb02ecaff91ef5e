"""The followed schema beside its table: written once, and read as it was written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sluice.core.schema_versions.followed import PROTOBUF
from sluice.core.tables.file_removal import MAX_WRITE_AGE
from spark_jobs.common.lake.followed import followed_schema
from spark_jobs.common.spark.failures import LakeFileMissing
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising

TABLE = "s3://w/lake/raw/x"


def test_it_is_read_as_it_was_written_and_written_once() -> None:
    s3 = MemoryS3()
    client = s3.as_client()
    digest = followed_schema.keep(client, TABLE, "{}")
    assert list(s3.objects) == [("w", f"lake/raw/x/schemas/{digest}.avsc")]
    s3.modified[("w", f"lake/raw/x/schemas/{digest}.avsc")] = datetime.now(UTC)
    assert followed_schema.keep(client, TABLE, "{}") == digest
    assert followed_schema.read(client, TABLE, digest) == "{}"
    assert followed_schema.keep(client, TABLE, "[]") != digest
    assert followed_schema.keep(client, TABLE, "{}", PROTOBUF) == digest
    assert ("w", f"lake/raw/x/schemas/{digest}.json") in s3.objects
    assert followed_schema.read(client, TABLE, digest, PROTOBUF) == "{}"


def test_an_old_one_is_written_again_under_another_name_since_it_may_be_removed_just_now() -> None:
    s3 = MemoryS3()
    old = followed_schema.keep(s3.as_client(), TABLE, "{}")
    place = "w", f"lake/raw/x/schemas/{old}.avsc"
    s3.modified[place] = datetime.now(UTC) - MAX_WRITE_AGE + timedelta(minutes=1)
    assert followed_schema.keep(s3.as_client(), TABLE, "{}") == old
    s3.modified[place] = datetime.now(UTC) - MAX_WRITE_AGE
    digest = followed_schema.keep(s3.as_client(), TABLE, "{}")
    assert digest != old
    assert followed_schema.read(s3.as_client(), TABLE, digest).strip() == "{}"
    # Both are old: a third one.
    s3.modified["w", f"lake/raw/x/schemas/{digest}.avsc"] = s3.modified[place]
    assert followed_schema.keep(s3.as_client(), TABLE, "{}") not in (old, digest)


def test_one_that_is_gone_or_damaged_is_named() -> None:
    s3 = MemoryS3()
    digest = followed_schema.keep(s3.as_client(), TABLE, "{}")
    (place,) = s3.objects
    s3.objects[place] = b"{ }"
    with raising(LakeFileMissing, place[1], "damaged", "Fix: "):
        followed_schema.read(s3.as_client(), TABLE, digest)
    del s3.objects[place]
    with raising(LakeFileMissing, place[1], "Fix: "):
        followed_schema.read(s3.as_client(), TABLE, digest)


def test_one_that_is_damaged_is_not_named_by_a_commit() -> None:
    s3 = MemoryS3()
    digest = followed_schema.keep(s3.as_client(), TABLE, "{}")
    s3.objects["w", f"lake/raw/x/schemas/{digest}.avsc"] = b""
    with raising(LakeFileMissing, digest, "damaged", "Fix: "):
        followed_schema.keep(s3.as_client(), TABLE, "{}")


@pytest.mark.parametrize("refused", ["AccessDenied"])
def test_what_the_bucket_refuses_is_no_answer(refused: str) -> None:
    s3 = MemoryS3()
    digest = followed_schema.keep(s3.as_client(), TABLE, "{}")
    s3.refuse_puts, s3.refuse_gets = [refused], [refused]
    with pytest.raises(Exception, match=refused):
        followed_schema.keep(s3.as_client(), TABLE, "{}")
    with pytest.raises(Exception, match=refused):
        followed_schema.read(s3.as_client(), TABLE, digest)
