"""What S3's answers say of rights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from sluice.connection_check.probing import s3 as probing
from sluice.connection_check.rights.s3 import DELETE
from sluice.connection_check.rows import Row


def answered(code: str) -> bool | None:
    def refuse(**_: object) -> Any:
        raise ClientError(cast("Any", {"Error": {"Code": code}}), "DeleteObject")

    asking = probing._Asking(
        Row("maintenance", "s3", "there"), cast("Any", SimpleNamespace(delete_object=refuse))
    )
    asking._requests = lambda bucket, key: {DELETE: refuse}  # type: ignore[method-assign]
    return asking.ask(DELETE, "bucket/key").is_there


@pytest.mark.parametrize(
    ("code", "is_there"),
    [
        ("AccessDenied", False),
        ("PreconditionFailed", True),
        ("NoSuchKey", True),
        # Before the right was looked for, perhaps.
        ("NotImplemented", None),
        ("InvalidArgument", None),
    ],
)
def test_a_request_that_the_server_does_not_know_tells_of_no_right(code: str, is_there: bool | None) -> None:
    assert answered(code) is is_there
