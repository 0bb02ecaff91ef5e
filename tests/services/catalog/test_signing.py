"""Requests of PyIceberg that are signed (SigV4): what AWS takes, and what is said of what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from pyiceberg.exceptions import CommitFailedException

from sluice.clients.catalogs import commits
from sluice.clients.catalogs.errors import LoginRefused, asking
from sluice.clients.catalogs.pointers import Pointers, opened
from sluice.clients.s3.errors import S3LoginRefused
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from spark_jobs.common.lake import expected_refs
from tests.support.catalog_proxy import Answer, Ask, Asked, CatalogProxy, refusal
from tests.support.raising import once_corrected, raising
from tests.support.signature_gate import REGION, SERVICE, SignatureGate

KEY, SECRET = "AKIAEXAMPLE", "right-secret"
TABLE = "/v1/namespaces/raw/tables/t"


class Behind:
    """A REST catalog behind AWS's check, without tables. It answers as ``answers`` say, one after another."""

    def __init__(self) -> None:
        self.gate = SignatureGate({KEY: (SECRET, "inner-token")})
        self.answers: list[Answer] = []
        self.asked: list[Asked] = []
        self.url = ""

    def __call__(self, asked: Asked, _: Ask) -> Answer | None:
        return self.gate(asked, self._answer)

    def _answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if asked.path == "/v1/config":
            return Answer(200, json.dumps({"defaults": {}, "overrides": {}}).encode())
        return self.answers.pop(0) if self.answers else refusal(404, "NoSuchTableException", "")

    def properties(self, **keys: str) -> dict[str, str]:
        return {
            "type": "rest",
            "uri": self.url,
            "warehouse": "arn:aws:s3tables:eu-central-1:1:bucket/b",
            "rest.auth.type": "sigv4",
            "rest.signing-name": SERVICE,
            "rest.signing-region": REGION,
            "rest.access-key-id": KEY,
            "rest.secret-access-key": SECRET,
            **{f"rest.{name.replace('_', '-')}": value for name, value in keys.items()},
        }

    def pointers(self, **keys: str) -> Pointers:
        return opened(self.properties(**keys))


@pytest.fixture
def server() -> Iterator[Behind]:
    made = Behind()
    with CatalogProxy("http://upstream.test", made) as proxy:
        made.url = proxy.url
        yield made


def test_what_is_signed_is_let_in(server: Behind) -> None:
    found = server.pointers()
    assert found.find("raw.t") is None
    assert found.find("raw.a b/%c") is None
    assert [one.path for one in server.asked] == [
        "/v1/config",
        TABLE,
        "/v1/namespaces/raw/tables/a%20b%2F%25c",
    ]
    assert {one.headers["authorization"] for one in server.asked} == {"Bearer inner-token"}
    assert server.gate.refused == []


def test_keys_of_a_session_go_with_their_token(server: Behind) -> None:
    server.gate.session_token = "session"
    server.pointers(session_token="session")
    with raising(LoginRefused, "security token included in the request is invalid"):
        server.pointers()


@pytest.mark.parametrize("in_iceberg", [False, True])
@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"secret_access_key": "wrong-secret"}, "InvalidSignatureException: The request signature we"),
        ({"access_key_id": "AKIAOTHER"}, "UnrecognizedClientException: The security token"),
        ({"signing_region": "us-east-1"}, "scoped to a valid region"),
        ({"signing_name": "s3tables"}, "scoped to correct service"),
    ],
)
def test_a_refused_login_is_named_with_the_words_of_aws(
    server: Behind, keys: Mapping[str, str], said: str, in_iceberg: bool
) -> None:
    server.gate.in_iceberg = in_iceberg
    with raising(LoginRefused, said, "/v1/config", "Fix: ", "[lake.catalog]") as caught:
        server.pointers(**keys)
    assert caught.value.code is ErrorCode.CATALOG_LOGIN
    assert not {SECRET, "wrong-secret"} & set(str(caught.value).split("'"))
    assert "secret" not in str(caught.value).lower().replace("aws secret access key", "")


@pytest.mark.parametrize(("hours", "side"), [(1, "behind"), (-1, "ahead of")])
def test_a_clock_that_is_wrong_is_named(server: Behind, hours: int, side: str) -> None:
    server.gate.clock = timedelta(hours=hours, seconds=20 * hours)
    words = f"clock is 1 h {side} the catalog's", "Fix: set the clock"
    with raising(LoginRefused, "InvalidSignatureException: Signature", *words):
        server.pointers()


def test_keys_that_end_while_a_process_runs_are_a_refused_login(server: Behind) -> None:
    found = server.pointers()
    server.gate.ended = frozenset({KEY})
    with raising(LoginRefused, "ExpiredTokenException", "is expired"), asking("table raw.t"):
        found.find("raw.t")


@pytest.mark.parametrize("in_iceberg", [False, True])
def test_a_missing_right_is_no_refused_login(server: Behind, in_iceberg: bool) -> None:
    server.gate.denied, server.gate.in_iceberg = frozenset({"POST"}), in_iceberg
    with raising(Refused, "AccessDeniedException", "not authorized to perform: glue:POST") as caught:
        committed(server)
    assert caught.value.code is ErrorCode.CATALOG_PERMISSION


def test_a_body_that_was_altered_on_the_way_is_refused(server: Behind) -> None:
    gate = server.gate

    def altered(asked: Asked, ask: Ask) -> Answer | None:
        return gate(replace(asked, body=b"{}") if asked.method == "POST" else asked, ask)

    server.gate = altered  # type: ignore[assignment]
    with raising(LoginRefused, "The request signature we calculated does not match"):
        committed(server)
    assert [one.method for one in server.asked] == ["GET"]


def committed(server: Behind) -> None:
    catalog = server.pointers().catalog
    with asking("table raw.t"):
        commits.commit(catalog, "raw.t", commits.expected_refs({"main": 1}), [])


def test_a_commit_that_is_sent_again_is_signed_again(server: Behind) -> None:
    """And once for each attempt: neither requests nor urllib3 sends it a second time by itself."""
    server.gate.seconds = 1.5
    catalog = server.pointers().catalog
    # Its signature counts no more after that time.
    lost = Answer(503, b"", {"Retry-After": "2"})
    server.answers = [lost, refusal(409, "CommitFailedException", "main is elsewhere")]
    with pytest.raises(CommitFailedException, match="main is elsewhere"):
        expected_refs._made(catalog, "raw.t", commits.expected_refs({"main": 1}), [])
    posted = [one for one in server.asked if one.method == "POST"]
    assert len(posted) == 2
    assert len({one.received["x-amz-date"] for one in posted}) == 2
    assert posted[0].body == posted[1].body
    assert server.gate.refused == []


def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has none."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_without_declared_keys_those_of_the_default_chain_sign(
    server: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_keys(monkeypatch)
    own = {"access_key_id": "", "secret_access_key": ""}
    with raising(S3LoginRefused, "AWS's default credentials", "Fix: give the process keys"):
        server.pointers(**own)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert once_corrected(lambda: server.pointers(**own), S3LoginRefused).find("raw.t") is None
    assert {key for key, _, _ in server.gate.let_in} == {KEY}
