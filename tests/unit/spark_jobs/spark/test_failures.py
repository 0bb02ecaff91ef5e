"""Which writer is fenced."""

from __future__ import annotations

import pytest

from spark_jobs.common.spark.failures import Fenced, check_epoch, failure_line
from tests.support.raising import raising


@pytest.mark.parametrize(
    ("newest", "opening", "is_fenced"),
    [
        (None, True, False),
        (4, True, False),
        (5, False, False),
        # A restored catalog issues an epoch again.
        (5, True, True),
        (6, False, True),
        (6, True, True),
    ],
)
def test_an_epoch_that_is_there_before_its_writer_is_another_one_s(
    newest: int | None, opening: bool, is_fenced: bool
) -> None:
    if not is_fenced:
        check_epoch("hits", 5, newest, "group g", opening=opening)
        return
    with raising(Fenced, "hits", "writer epoch 5", "group g") as caught:
        check_epoch("hits", 5, newest, "group g", opening=opening)
    # run.raise_above acquires the lease above it.
    assert caught.value.epoch == newest


_JAVA = "java.sql."
_CONNECT = "SQLNonTransientConnectionException: (conn=17) "
_NOT_FOUND = "unable to find valid certification path to requested target"
_ICEBERG = "org.apache.iceberg.exceptions."
_GLUE = "software.amazon.awssdk.services.glue.model."
_BY_GLUE = "(Service: Glue, Status Code: 400, Request ID: 5d0a)"
_ALERT = "javax.net.ssl.SSLHandshakeException: Received fatal alert: certificate_expired"
_S3 = "software.amazon.awssdk.services.s3.model.S3Exception: "


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (
            f"{_GLUE}AccessDeniedException: u: not authorized to perform: glue:GetTable (none) {_BY_GLUE}",
            "SLU-226 Refused: the lake's catalog: the catalog refuses this role: 'AccessDeniedException: u",
        ),
        (
            f"{_GLUE}GlueException: The security token included in the request is expired {_BY_GLUE}",
            "SLU-228 LoginRefused: the lake's catalog: the catalog refuses the login: 'GlueException: The",
        ),
        (
            f"{_GLUE}ExpiredTokenException: It has ended. {_BY_GLUE}",
            "SLU-228 LoginRefused: the lake's catalog: the catalog refuses the login: 'ExpiredTokenException",
        ),
        (
            f"{_GLUE}GlueException: Rate exceeded {_BY_GLUE}",
            "SLU-221 Unreachable: the lake's catalog: the catalog: 'GlueException: Rate exceeded",
        ),
        (
            f"{_GLUE}ThrottlingException: Slow down {_BY_GLUE}",
            "SLU-221 Unreachable: the lake's catalog: the catalog: 'ThrottlingException: Slow",
        ),
        (
            f"{_GLUE}ConcurrentModificationException: Update table failed {_BY_GLUE}",
            f"SLU-500 {_GLUE}ConcurrentModificationException: Update",
        ),
        (
            f"{_S3}The provided token has expired. (Service: S3, Status Code: 400, Request ID: X)",
            "SLU-212 S3Denied: S3 denies access: The provided token has expired. (Service: S3",
        ),
        (
            f"{_S3}The part is too small. (Service: S3, Status Code: 400, Request ID: X)",
            f"SLU-500 {_S3}The part",
        ),
        (
            f"{_JAVA}SQLInvalidAuthorizationSpecException: (conn=15) Access denied for user 'u'@'h'",
            "SLU-228 LoginRefused: the lake's catalog: the catalog refuses the login: \"Access denied",
        ),
        (
            f"{_JAVA}SQLSyntaxErrorException: (conn=16) Access denied for user 'u'@'h' to database 'lake'",
            "SLU-226 Refused: the lake's catalog: the catalog refuses this role: \"Access denied",
        ),
        (
            f"{_ICEBERG}NotAuthorizedException: Not authorized: token has expired",
            "SLU-228 LoginRefused: the lake's catalog: the catalog refuses the login: 'Not authorized: token",
        ),
        (
            f"{_ICEBERG}ForbiddenException: Forbidden: InvalidSignatureException: Signature expired: a, b",
            "SLU-228 LoginRefused: the lake's catalog: the catalog refuses the login: 'Forbidden: Inv",
        ),
        (
            f"{_ICEBERG}ForbiddenException: Forbidden: no right to TABLE_READ_DATA",
            "SLU-226 Refused: the lake's catalog: the catalog refuses this role: 'Forbidden: no right",
        ),
        (
            f"{_JAVA}SQLSyntaxErrorException: (conn=18) CREATE command denied to user 'u'@'h' for table `t`",
            "SLU-226 Refused: the lake's catalog: the catalog refuses this role: \"CREATE",
        ),
        (
            'org.postgresql.util.PSQLException: FATAL: password authentication failed for user "u"',
            "SLU-228 LoginRefused: the lake's catalog: the catalog refuses the login: 'FATAL: password",
        ),
        (
            "org.postgresql.util.PSQLException: FATAL: connection requires a valid client certificate",
            "SLU-228 LoginRefused: the lake's catalog: the catalog refuses the login: 'FATAL: connection",
        ),
        (
            f"{_ALERT}\n\tat org.postgresql.core.VisibleBufferedInputStream.readMore",
            "SLU-228 LoginRefused: the lake's catalog: the catalog refuses the login: 'Received fatal alert",
        ),
        (
            f"{_ALERT}\n\tat org.other.X",
            f"SLU-500 {_ALERT}",
        ),
        (
            f"{_JAVA}{_CONNECT}Trying to connect with ssl, but ssl not enabled in the server",
            "SLU-228 LoginRefused: the lake's catalog: the catalog is not verified",
        ),
        (
            f"{_JAVA}{_CONNECT}Could not connect to h:1 : {_NOT_FOUND}\nCaused by: sun.X: {_NOT_FOUND}",
            "SLU-228 LoginRefused: the lake's catalog: the catalog is not verified",
        ),
        (
            f"{_JAVA}SQLNonTransientConnectionException: Socket fail to connect to h:1. Connection refused",
            "SLU-500 java.sql.SQLNonTransientConnectionException: Socket fail to connect to h:1",
        ),
    ],
)
def test_a_catalog_that_refuses_or_is_another_is_said_in_one_sentence(cause: str, words: str) -> None:
    text = f"An error occurred while calling o1.sql.\n: java.lang.RuntimeException: x\nCaused by: {cause}"
    assert failure_line(RuntimeError(text)).startswith(words)
