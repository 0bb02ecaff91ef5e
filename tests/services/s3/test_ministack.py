"""Roles of AWS's kind, assumed at ministack's STS: what is sent, what a session may, and that it is renewed.

ministack checks who has a key, a role's trust policy and its policies, and the end of a session. It checks no
signature, no session token, no web identity and no external id: of these the tests see that they are sent.
MinIO checks the first three (test_logins.py); nothing here checks an external id as AWS does. A session lasts
as long as its request says; those of Sluice do not say it, so a proxy does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import boto3
import pytest
from botocore.exceptions import ClientError

from local.runtime.roles import WAREHOUSE
from sluice.clients.s3.errors import S3LoginRefused, asking
from sluice.clients.s3.login import session
from sluice.clients.s3.login.credentials import login
from sluice.clients.s3.login.sources import SESSION_NAME
from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.s3 import S3
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from tests.support import glue_server
from tests.support.catalog_proxy import Answer, Ask, Asked, CatalogProxy
from tests.support.raising import raising

ACCOUNT = "000000000000"
USER = f"arn:aws:iam::{ACCOUNT}:user/lake"
# A role's name -> whether the user is trusted, and what a session may do in the bucket.
ROLES = {"writer": (True, "s3:*Object"), "reader": (True, "s3:GetObject"), "of-others": (False, "s3:*")}
SESSION_SECONDS = 3
Keys = tuple[str | None, str | None]
# Those of the account's root user, who may do all.
ROOT: Keys = ("test", "test")


def document(**statement: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]})


def arn(role: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:role/{role}"


@dataclass
class Account:
    """One of AWS, with a user that may assume roles, a bucket, and its STS behind a proxy."""

    url: str
    sts: str = ""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    asked: list[dict[str, str]] = field(default_factory=list)
    """The forms of requests to STS."""
    seconds: int = 3600
    """How long a session counts."""

    def client(self, service: str, keys: Keys = ROOT) -> Any:
        """boto3's, with an access key and its secret."""
        made: Any = boto3.client
        login = {"aws_access_key_id": keys[0], "aws_secret_access_key": keys[1]}
        return made(service, endpoint_url=self.url, region_name="us-east-1", **login)

    def make(self) -> None:
        self.client("s3").create_bucket(Bucket=WAREHOUSE)
        iam = self.client("iam")
        iam.create_user(UserName="lake")
        given = iam.create_access_key(UserName="lake")["AccessKey"]
        self.access_key, self.secret_key = given["AccessKeyId"], given["SecretAccessKey"]
        assuming = document(Action="sts:AssumeRole", Resource="*")
        iam.put_user_policy(UserName="lake", PolicyName="roles", PolicyDocument=assuming)
        for role, (is_trusted, action) in ROLES.items():
            trusted = USER if is_trusted else USER.replace("lake", "another")
            trust = document(Action="sts:AssumeRole", Principal={"AWS": trusted})
            iam.create_role(RoleName=role, AssumeRolePolicyDocument=trust)
            objects = document(Action=action, Resource=f"arn:aws:s3:::{WAREHOUSE}/*")
            iam.put_role_policy(RoleName=role, PolicyName="objects", PolicyDocument=objects)

    def answer(self, asked: Asked, ask: Ask) -> Answer:
        """The rule of the proxy before its STS."""
        form = dict(parse_qsl(asked.body.decode()))
        self.asked.append({**form, "signed by": asked.headers.get("authorization", "")})
        longer = asked.body + f"&DurationSeconds={self.seconds}".encode()
        return ask(Asked(asked.method, asked.target, asked.headers, longer))

    def s3(self, role: str, **declared: Any) -> S3:
        keys = {} if "web_identity_token_file" in declared else {
            "access_key": self.access_key,
            "secret_key": self.secret_key,
        }  # fmt: skip
        place = {"endpoint": self.url, "path_style": True, "role_arn": arn(role), "sts_endpoint": self.sts}
        return S3(**{**keys, **place, **declared})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    folder = tmp_path_factory.mktemp("ministack")
    with glue_server.running(folder, "sts,s3,iam", AUTH="true") as url, CatalogProxy(url) as proxy:
        made = Account(url, proxy.url)
        proxy.rule = made.answer
        made.make()
        yield made


@pytest.fixture
def account(served: Account) -> Account:
    for cached in (login, session._session):
        cached.cache_clear()
    served.asked.clear()
    served.seconds = 3600
    return served


def put(s3: S3, key: str) -> None:
    with asking(f"s3://{WAREHOUSE}/{key}"):
        connect(s3).put_object(Bucket=WAREHOUSE, Key=key, Body=b"x")


@pytest.mark.parametrize(
    ("declared", "sent"),
    [
        ({}, {"RoleSessionName": SESSION_NAME}),
        (
            {"external_id": "given-by/other:1", "role_session_name": "consumer@lake"},
            {"RoleSessionName": "consumer@lake", "ExternalId": "given-by/other:1"},
        ),
    ],
)
def test_a_role_is_assumed_with_the_declared_names(
    account: Account, declared: dict[str, str], sent: dict[str, str]
) -> None:
    s3 = account.s3("writer", **declared)
    put(s3, "assumed")
    (form,) = account.asked
    signed = form.pop("signed by")
    assert f"Credential={account.access_key}/" in signed
    assert "/sts/aws4_request" in signed
    assert form == {"Action": "AssumeRole", "Version": "2011-06-15", "RoleArn": arn("writer"), **sent}
    keys = login(s3).get_frozen_credentials()
    assert keys.access_key != account.access_key
    assert keys.token
    sts = account.client("sts", (keys.access_key, keys.secret_key))
    assert sts.get_caller_identity()["Arn"].endswith(f"assumed-role/writer/{sent['RoleSessionName']}")


def test_a_session_of_seconds_is_renewed_under_a_client_that_stays(account: Account) -> None:
    account.seconds = SESSION_SECONDS
    s3 = account.s3("writer")
    client, began, written = connect(s3), time.monotonic(), 0
    first = login(s3).get_frozen_credentials()
    while time.monotonic() - began < 3 * SESSION_SECONDS:
        with asking("a session that is renewed"):
            client.put_object(Bucket=WAREHOUSE, Key=f"renewed/{written}", Body=b"x")
        written += 1
        time.sleep(0.2)
    assert 3 <= len(account.asked) <= 12, "each session was used for a part of its time"
    listed = account.client("s3").list_objects_v2(Bucket=WAREHOUSE, Prefix="renewed/")
    assert listed["KeyCount"] == written
    # Without that it would have ended.
    ended = account.client("s3", (first.access_key, first.secret_key))
    with pytest.raises(ClientError, match="ExpiredToken"):
        ended.put_object(Bucket=WAREHOUSE, Key="ended", Body=b"x")


def test_a_web_identity_is_sent_and_read_again(account: Account, tmp_path: Path) -> None:
    account.seconds = SESSION_SECONDS
    token = tmp_path / "token"
    token.write_text("first.web.identity\n")
    s3 = account.s3("writer", web_identity_token_file=str(token), role_session_name="pod-1")
    put(s3, "by-identity")
    (form,) = account.asked
    assert form == {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": arn("writer"),
        "RoleSessionName": "pod-1",
        "WebIdentityToken": "first.web.identity",
        "signed by": "",
    }
    token.write_text("second.web.identity")
    time.sleep(SESSION_SECONDS)
    put(s3, "by-identity")
    assert account.asked[-1]["WebIdentityToken"] == "second.web.identity"


@pytest.mark.parametrize("role", ["of-others", "missing"])
def test_a_role_that_does_not_trust_the_login_is_one_line_with_its_fix(account: Account, role: str) -> None:
    s3 = account.s3(role, external_id="hidden-by-others")
    words = (
        f"role {arn(role)}: STS answered AccessDenied: ",
        "Fix: let the role's trust policy name this login",
    )
    with raising(S3LoginRefused, *words) as caught:
        put(s3, "refused")
    assert caught.value.code is ErrorCode.S3_LOGIN
    assert "\n" not in str(caught.value)
    assert account.secret_key not in str(caught.value)


def test_a_role_without_a_right_is_one_line_and_no_refused_login(account: Account) -> None:
    with raising(Refused, f"s3://{WAREHOUSE}/denied: S3 denies access (AccessDenied). Fix: ") as caught:
        put(account.s3("reader"), "denied")
    assert caught.value.code is ErrorCode.S3_PERMISSION
    assert "\n" not in str(caught.value)
