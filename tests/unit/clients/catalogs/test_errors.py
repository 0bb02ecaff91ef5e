"""Errors of the catalog's libraries as Sluice's."""

from __future__ import annotations

import psycopg2
import pymysql  # type: ignore[import-untyped]
import pytest
from pyiceberg.catalog.rest import ConfigResponse
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.exceptions import ForbiddenError, RESTError
from requests import HTTPError, Response
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from sluice.clients.catalogs.errors import asking
from sluice.core.error_codes import PERMANENT, ErrorCode
from sluice.core.errors import ClientError, Missing, Refused, Unreachable
from tests.support.raising import raising


def test_a_catalog_whose_connections_all_hang_is_unreachable() -> None:
    with raising(Unreachable, "table x", "catalog"), asking("table x"):
        raise PoolTimeout("QueuePool limit of size 5 overflow 10 reached")


_SSL = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate"
MYSQL_CASES = [
    (
        (1146, "Table 'lake.iceberg_tables' doesn't exist"),
        *(Missing, ErrorCode.TABLE_NOT_FOUND, "no tables yet"),
    ),
    (
        (1045, "Access denied for user 'u'@'h' (using password: YES)"),
        *(Refused, ErrorCode.CATALOG_LOGIN, "Access denied for user"),
    ),
    (
        (1142, "UPDATE command denied to user 'lake_reader'@'h' for table `lake`.`iceberg_tables`"),
        *(Refused, ErrorCode.CATALOG_PERMISSION, "UPDATE command denied"),
    ),
    ((1049, "Unknown database 'lake'"), Refused, ErrorCode.CATALOG_PERMISSION, "Unknown database 'lake'"),
    (
        (2003, f"Can't connect to MySQL server on 'h' ({_SSL})"),
        *(Refused, ErrorCode.CATALOG_LOGIN, "not verified, and got no login"),
    ),
    (
        (2026, "SSL is required but the server doesn't support it"),
        *(Refused, ErrorCode.CATALOG_LOGIN, "Fix: correct sslrootcert"),
    ),
    (
        (2013, "Lost connection to MySQL server during query ([SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert)"),
        *(Refused, ErrorCode.CATALOG_LOGIN, "Fix: correct the login, or the certificate"),
    ),
    ((2013, "Lost connection"), Unreachable, ErrorCode.CATALOG_UNREACHABLE, "does not answer: Lost"),
    ((1205, "Lock wait timeout exceeded"), Unreachable, ErrorCode.CATALOG_UNREACHABLE, "does not answer"),
]


@pytest.mark.parametrize(("arguments", "kind", "code", "words"), MYSQL_CASES)
def test_an_error_of_mysqls_driver_is_one_sentence_with_a_code(
    arguments: tuple[int, str], kind: type[Exception], code: ErrorCode, words: str
) -> None:
    error = pymysql.err.OperationalError(*arguments)
    with raising(kind, "table x: the catalog", words) as raised, asking("table x"):
        raise DBAPIError("select 1", {}, error)
    assert raised.value.code is code
    assert "select 1" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ('FATAL:  password authentication failed for user "u"', "SLU-228", "refuses the login"),
        ("FATAL:  connection requires a valid client certificate", "SLU-228", "refuses the login"),
        ("SSL error: ssl/tls alert certificate expired", "SLU-228", "refuses the login"),
        ("SSL error: tlsv1 alert unknown ca", "SLU-228", "refuses the login"),
        ('private key file "k" has group or world access', "SLU-228", "refuses the login"),
        ('server certificate for "a" does not match host name "b"', "SLU-228", "got no login"),
        ('root certificate file "c" does not exist', "SLU-228", "got no login"),
        ("server does not support SSL, but SSL was required", "SLU-228", "got no login"),
        ('permission denied for database "lake"', "SLU-226", "refuses this role"),
        ("SSL error: ssl/tls alert internal error", "SLU-221", "does not answer"),
        ('could not translate host name "h"', "SLU-221", "does not answer"),
    ],
)
def test_an_error_of_postgresqls_driver_is_one_sentence(text: str, code: str, words: str) -> None:
    with raising(ClientError, "table x: the catalog", words) as raised, asking("table x"):
        raise DBAPIError("select 1", {}, psycopg2.OperationalError(text))
    assert raised.value.code == code


def answered(status: int, text: str) -> RESTError:
    """PyIceberg's error for an answer."""
    response = Response()
    response.status_code, response._content = status, text.encode()
    try:
        raise HTTPError(response=response)
    except HTTPError as cause:
        with pytest.raises(RESTError) as raised:
            _handle_non_200_response(cause, {})
    return raised.value


@pytest.mark.parametrize("status", [400, 404, 406, 422])
def test_a_request_that_a_catalog_does_not_take_is_refused_with_what_to_correct(status: int) -> None:
    body = '{"error": {"message": "no warehouse w", "type": "BadRequest", "code": 400}}'
    words = "the lake's catalog: the catalog refuses the request", "no warehouse w", "Fix: correct uri, ware"
    with raising(Refused, *words) as raised, asking("the lake's catalog"):
        raise answered(status, body)
    assert raised.value.code not in PERMANENT


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
def test_what_a_catalog_may_take_later_is_unreachable(status: int) -> None:
    with raising(Unreachable, "table x: the catalog does not answer"), asking("table x"):
        raise answered(status, "busy")


def test_a_page_in_place_of_the_servers_configuration_is_refused() -> None:
    with raising(Refused, "refuses the request", "Fix: correct uri, ware"), asking("the lake's catalog"):
        ConfigResponse.model_validate_json("<html>")


def test_a_refusal_names_the_right_that_is_missing_also_behind_a_long_name() -> None:
    error = ForbiddenError(f"Principal 'arn:aws:iam::1:{'r' * 200}' is not allowed: TABLE_READ_DATA")
    words = (
        "TABLE_READ_DATA",
        "Fix: correct the login in [lake.catalog] of the role's platform file, or give it",
    )
    with raising(Refused, *words), asking("table x"):
        raise error
