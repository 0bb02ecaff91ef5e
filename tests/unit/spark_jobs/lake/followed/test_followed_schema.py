"""The followed schema beside its table: written once, and read as it was written."""

from __future__ import annotations

import pytest

from sluice.core.schema_versions.followed import PROTOBUF
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
    assert followed_schema.keep(client, TABLE, "{}") == digest
    assert followed_schema.read(client, TABLE, digest) == "{}"
    assert followed_schema.keep(client, TABLE, "[]") != digest
    assert followed_schema.keep(client, TABLE, "{}", PROTOBUF) == digest
    assert ("w", f"lake/raw/x/schemas/{digest}.json") in s3.objects
    assert followed_schema.read(client, TABLE, digest, PROTOBUF) == "{}"


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
