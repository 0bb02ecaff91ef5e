"""Logins of S3 against a MinIO with STS: what is declared once serves every client of Python's, is renewed,
and a refusal is one line with its fix."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.compat import get_current_datetime

from local.runtime.roles import WAREHOUSE
from sluice.clients.lake.file_io import DeclaredFileIO
from sluice.clients.s3 import errors
from sluice.clients.s3.errors import S3LoginRefused, asking
from sluice.clients.s3.login import credentials, session
from sluice.clients.s3.login.credentials import login
from sluice.clients.s3.login.endpoint import PATH, endpoint
from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.s3 import S3
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Unreachable
from tests.support.catalog_proxy import CatalogProxy
from tests.support.raising import once_corrected, raising
from tests.support.s3_logins import KEY, USER, USER_SECRET, LoginMinio

NO_LOGIN = "/no/such/file"
OF_ENVIRONMENT = ("environment", "role of the environment")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginMinio]:
    made = LoginMinio(tmp_path_factory.mktemp("logins"))
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def no_login_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found but what a test declares, nor kept of the test before."""
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, NO_LOGIN)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for cached in (credentials.login, session._session, endpoint):
        cached.cache_clear()


def declared(store: LoginMinio, kind: str, folder: Path, patch: pytest.MonkeyPatch) -> S3:
    """A login of this kind, and what it needs beside its declaration."""
    token = folder / "token"
    if kind == "web identity":
        store.renew(token, 60)
        return store.of_token(token)
    if kind == "session token":
        given = login(store.of_role()).get_frozen_credentials()
        assert given.access_key
        assert given.secret_key
        return store.s3(given.access_key, given.secret_key, session_token=given.token)
    keys = {"aws_access_key_id": USER, "aws_secret_access_key": USER_SECRET}
    if kind in OF_ENVIRONMENT:
        for name, value in keys.items():
            patch.setenv(name.upper(), value)
        role = store.of_role()
        return store.s3() if kind == "environment" else replace(role, access_key="", secret_key="")
    if kind == "profile":
        text = "\n".join(["[lake]", *(f"{name} = {value}" for name, value in keys.items())])
        (folder / "credentials").write_text(text)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))
        # A profile that is declared goes before the environment.
        patch.setenv("AWS_ACCESS_KEY_ID", "another")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        return store.s3(profile="lake")
    return {"keys": store.s3(USER, USER_SECRET), "role": store.of_role(external_id="ours")}[kind]


@pytest.mark.parametrize(
    "kind",
    [
        *("keys", "session token", "profile", "role", "web identity"),
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in ("environment", "role of the environment")
        ),
    ],
)
def test_all_logins_of_one_declaration(
    store: LoginMinio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    s3, key = declared(store, kind, tmp_path, monkeypatch), kind.replace(" ", "-")
    with asking(kind):
        connect(s3).put_object(Bucket=WAREHOUSE, Key=f"boto/{key}", Body=b"boto")
    files, place = DeclaredFileIO(s3.properties()), f"s3://{WAREHOUSE}/pyiceberg/{key}"
    with files.new_output(place).create() as out:
        out.write(b"pyiceberg")
    assert files.new_input(place).open().read() == b"pyiceberg"
    with pytest.raises(FileExistsError):
        files.new_output(place).create()
    files.delete(place)
    assert not files.new_input(place).exists()
    if s3.has_fixed_login:
        return
    # As the JVM asks.
    found = endpoint(s3)
    assert found.token not in repr(found)
    document = httpx.get(f"{found.address}{PATH}", headers={"Authorization": found.token}).json()
    java = boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        verify=s3.ca_location,
        aws_access_key_id=document["AccessKeyId"],
        aws_secret_access_key=document["SecretAccessKey"],
        aws_session_token=document["Token"] or None,
    )
    assert java.get_object(Bucket=WAREHOUSE, Key=f"boto/{key}")["Body"].read() == b"boto"
    # For keys that do not end, too: AWS's client for Java fails without one.
    assert "Expiration" in document
    for headers in ({}, {"Authorization": "guessed"}):
        answer = httpx.get(f"{found.address}{PATH}", headers=headers)
        assert answer.status_code == 403
        assert "AccessKeyId" not in answer.text


NO_KEYS = {"access_key": "", "secret_key": ""}
ROLE = "role arn:aws:iam::123456789012:role/lake"
STS_REFUSES = f"{ROLE}: STS answered AccessDenied: "
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a wrong key": ({"secret_key": "hidden"}, "S3 refuses the login (SignatureDoesNotMatch: "),
    "an unknown user": ({"access_key": "unknown"}, "S3 refuses the login (InvalidAccessKeyId: "),
    "a token of nothing": ({"session_token": "hidden"}, "(InvalidTokenId: The security token"),
    "a wrong key of a role": ({"secret_key": "hidden", "role_arn": "arn:aws:iam::123456789012:role/lake"},
        "provided. Check your key and signing method. Fix: correct the login in [s3]"),
    "a foreign CA": ({"ca_location": ""}, "the certificate is not trusted (SSL validation failed"),
    "no CA": ({"ca_location": NO_LOGIN}, "No such file or directory). Fix: write the path of its CA"),
    "no profile": ({**NO_KEYS, "profile": "none"}, "The config profile (none) could not be found"),
    "no credentials": (NO_KEYS, "AWS's default credentials: they are none"),
    "no token": ({**NO_KEYS, "role_arn": "arn:minio:iam:::role/a", "web_identity_token_file": NO_LOGIN},
        "No such file or directory: '/no/such/file'. Fix: let what writes"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_login_is_one_line_with_its_fix(store: LoginMinio, case: str) -> None:
    changed, message = REFUSED[case]
    if "role_arn" in changed:
        changed = {**changed, "sts_endpoint": store.url}
    s3 = replace(store.s3(USER, USER_SECRET), **changed)
    with raising(S3LoginRefused, message, "Fix:") as caught, asking("s3://warehouse"):
        connect(s3).list_objects_v2(Bucket=WAREHOUSE)
    assert caught.value.code is ErrorCode.S3_LOGIN
    assert "\n" not in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_server_of_another_name_is_one_line_with_its_fix(store: LoginMinio) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*store.authority.issue("elsewhere", host="elsewhere.test"))
    fix = "Fix: correct the host's name in endpoint or sts_endpoint"
    with CatalogProxy(store.url, context=context) as elsewhere:
        for s3 in (
            replace(store.s3(USER, USER_SECRET), endpoint=elsewhere.url),
            replace(store.of_role(), sts_endpoint=elsewhere.url),
        ):
            with (
                raising(S3LoginRefused, "'127.0.0.1' doesn't match 'elsewhere.test'", fix) as caught,
                asking("s3://warehouse"),
            ):
                connect(s3).list_objects_v2(Bucket=WAREHOUSE)
            assert caught.value.code is ErrorCode.S3_LOGIN
            assert "\n" not in str(caught.value)


def test_an_sts_that_is_away_is_no_refusal(store: LoginMinio) -> None:
    s3 = replace(store.of_role(), sts_endpoint="https://127.0.0.1:1")
    with raising(Unreachable, "role arn:aws:iam::123456789012:role/lake: Could not connect"), asking("x"):
        connect(s3).list_objects_v2(Bucket=WAREHOUSE)


def test_a_token_that_is_renewed_is_read_again(store: LoginMinio, tmp_path: Path) -> None:
    token, lifetime = tmp_path / "token", 2.0
    store.renew(token, lifetime)
    s3 = store.of_token(token)
    client = connect(s3)
    client.list_objects_v2(Bucket=WAREHOUSE)
    first = login(s3).ends
    assert first is not None
    time.sleep(lifetime + 0.5)
    with raising(S3LoginRefused, "STS answered", "Token is expired", "Fix: let what writes the token's file"):
        client.list_objects_v2(Bucket=WAREHOUSE)
    store.renew(token, 60)
    once_corrected(lambda: client.list_objects_v2(Bucket=WAREHOUSE), S3LoginRefused)
    last = login(s3).ends
    assert last is not None
    assert first < datetime.now(UTC) < last


@pytest.mark.parametrize(
    ("sse", "key", "said"),
    [
        ("AES256", "", ("AES256", None)),
        ("aws:kms", KEY, ("aws:kms", f"arn:aws:kms:{KEY}")),
        ("", "", (None, None)),
    ],
)
def test_every_object_is_encrypted_as_declared(
    store: LoginMinio, sse: str, key: str, said: tuple[str | None, str | None]
) -> None:
    s3 = store.s3(USER, USER_SECRET, sse=sse, sse_kms_key_id=key)
    client, files = connect(s3), DeclaredFileIO(s3.properties())
    client.put_object(Bucket=WAREHOUSE, Key="put", Body=b"1", IfNoneMatch="*")
    many = client.create_multipart_upload(Bucket=WAREHOUSE, Key="parts")["UploadId"]
    part = client.upload_part(Bucket=WAREHOUSE, Key="parts", UploadId=many, PartNumber=1, Body=b"1")
    done: Any = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    client.complete_multipart_upload(Bucket=WAREHOUSE, Key="parts", UploadId=many, MultipartUpload=done)
    with files.new_output(f"s3://{WAREHOUSE}/file").create(overwrite=True) as out:
        out.write(b"1")
    for name in ("put", "parts", "file"):
        head = store.root.head_object(Bucket=WAREHOUSE, Key=name)
        assert (head.get("ServerSideEncryption"), head.get("SSEKMSKeyId")) == said
        store.root.delete_object(Bucket=WAREHOUSE, Key=name)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_off_is_named(store: LoginMinio, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    def now(**given: Any) -> datetime:
        return get_current_datetime(**given) + timedelta(hours=hours)

    monkeypatch.setattr("botocore.auth.get_current_datetime", now)
    monkeypatch.setattr(errors, "_now", lambda: datetime.now(UTC) + timedelta(hours=hours))
    fix = "Fix: set this machine's clock, or the server's"
    with raising(S3LoginRefused, "S3 refuses the login (RequestTimeTooSkewed: ", fix), asking("x"):
        connect(store.s3(USER, USER_SECRET)).list_objects_v2(Bucket=WAREHOUSE)
    # MinIO's STS has no words for it.
    with raising(S3LoginRefused, f"{ROLE}: STS answered ", fix), asking("x"):
        connect(store.of_role()).list_objects_v2(Bucket=WAREHOUSE)
