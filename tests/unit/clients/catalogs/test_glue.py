"""Errors of AWS Glue as Sluice's, and which of its answers are of a repeated request."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from botocore.stub import Stubber

from sluice.clients.catalogs.errors import asking
from sluice.clients.catalogs.glue import BoundedGlue
from sluice.clients.catalogs.pointers import Pointer, opened
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError as SluiceError
from sluice.core.errors import Missing, Refused, Unreachable
from tests.support.raising import raising

PROPERTIES = {
    "type": "glue",
    "glue.endpoint": "http://glue.test",
    "glue.region": "us-east-1",
    "glue.access-key-id": "key",
    "glue.secret-access-key": "hidden",
    "glue.id": "123456789012",
}
ASKED = {"CatalogId": "123456789012", "DatabaseName": "raw", "Name": "t"}


@pytest.fixture
def glue() -> BoundedGlue:
    catalog = opened(PROPERTIES).catalog
    assert isinstance(catalog, BoundedGlue)
    return catalog


def test_requests_have_deadlines_and_are_repeated_a_few_times(glue: BoundedGlue) -> None:
    config = glue.glue.meta.config
    assert (config.connect_timeout, config.read_timeout) == (5, 60)
    assert config.retries["total_max_attempts"] == 5


def test_one_request_tells_where_a_table_is() -> None:
    pointers = opened(PROPERTIES)
    assert isinstance(pointers.catalog, BoundedGlue)
    with Stubber(pointers.catalog.glue) as stub:
        answer = {"Table": {"Name": "t", "Parameters": {"metadata_location": "s3://b/1.json"}}}
        stub.add_response("get_table", answer, ASKED)
        stub.add_client_error("get_table", "EntityNotFoundException", expected_params=ASKED)
        assert pointers.find("raw.t") == Pointer("s3://b/1.json")
        assert pointers.find("raw.t") is None
        stub.assert_no_pending_responses()


def test_a_table_of_another_format_is_named(glue: BoundedGlue) -> None:
    with Stubber(glue.glue) as stub, raising(Refused, "raw.t", "none of Iceberg's", "Fix: ") as refused:
        stub.add_response("get_table", {"Table": {"Name": "t", "Parameters": {"EXTERNAL": "TRUE"}}}, ASKED)
        glue.metadata_location("raw", "t")
    assert refused.value.code is ErrorCode.TABLE_REPLACED


@pytest.mark.parametrize(
    ("code", "kind", "found"),
    [
        ("AccessDeniedException", Refused, ErrorCode.CATALOG_PERMISSION),
        ("UnrecognizedClientException", Refused, ErrorCode.CATALOG_LOGIN),
        ("ExpiredTokenException", Refused, ErrorCode.CATALOG_LOGIN),
        ("EntityNotFoundException", Missing, ErrorCode.TABLE_NOT_FOUND),
        ("ThrottlingException", Unreachable, ErrorCode.CATALOG_UNREACHABLE),
        ("InternalServiceException", Unreachable, ErrorCode.CATALOG_UNREACHABLE),
    ],
)
def test_an_answer_that_is_an_error_is_told_by_its_kind(
    code: str, kind: type[SluiceError], found: ErrorCode
) -> None:
    answer: Any = {"Error": {"Code": code, "Message": "no glue:GetTable"}}
    with raising(kind, "table raw.t") as error, asking("table raw.t"):
        raise ClientError(answer, "GetTable")
    assert error.value.code is found
    if kind is Refused:
        assert f"{code}: no glue:GetTable" in str(error.value)
        assert "Fix: " in str(error.value)


def test_a_glue_that_does_not_answer_is_unreachable() -> None:
    with raising(Unreachable, "table raw.t", "http://glue.test"), asking("table raw.t"):
        raise EndpointConnectionError(endpoint_url="http://glue.test")
