"""AWS's check of signed requests (SigV4) as a rule of the proxy before a REST catalog: refuses as AWS does,
and lets in who signs as botocore would with the same keys."""

from __future__ import annotations

import hmac
import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from hashlib import sha256

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.support.catalog_proxy import Answer, Ask, Asked, refusal

REGION, SERVICE = "eu-central-1", "glue"
_TIME = "%Y%m%dT%H%M%SZ"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]*)/([^/]*)/aws4_request, ?"
    r"SignedHeaders=([\w;-]+), ?Signature=([0-9a-f]{64})"
)
# AWS's own texts.
_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
    "Access Key and signing method. Consult the service documentation for details."
)


@dataclass
class SignatureGate:
    """Keys for the catalog's own logins."""

    keys: Mapping[str, tuple[str, str]]
    """Access key -> its secret, and the catalog's token for it."""
    session_token: str = ""
    """That must go with each request; empty: none."""
    ended: frozenset[str] = frozenset()
    """Access keys whose session token has expired."""
    clock: timedelta = timedelta()
    """How far its clock is ahead of this machine's."""
    seconds: float = 300
    """How long a signature counts, before and behind."""
    in_iceberg: bool = False
    """Whether it answers by a document of Iceberg's, or as AWS's front ends do."""
    denied: frozenset[str] = frozenset()
    """Methods to which the keys have no right."""
    let_in: list[tuple[str, str, str]] = field(default_factory=list)
    """Access key, signature and asking program of each request that was let in."""
    refused: list[str] = field(default_factory=list)
    """Why each of the others was not."""

    def __call__(self, asked: Asked, ask: Ask) -> Answer | None:
        reason = self._reason(asked)
        if reason is not None:
            kind, said = reason
            self.refused.append(kind)
            return self._refusal(kind, said)
        key = _AUTHORIZATION.fullmatch(asked.headers["authorization"])
        assert key is not None
        self.let_in.append((key[1], key[6], asked.headers.get("user-agent", "").partition("/")[0]))
        own = {"authorization": f"Bearer {self.keys[key[1]][1]}"}
        inner = {name: text for name, text in asked.headers.items() if not name.startswith("x-amz-")}
        return ask(replace(asked, headers={**inner, **own}))

    @property
    def now(self) -> datetime:
        return datetime.now(UTC) + self.clock

    def _refusal(self, kind: str, said: str) -> Answer:
        date = {"Date": format_datetime(self.now, usegmt=True)}
        if self.in_iceberg:
            return refusal(403, kind, said, date)
        body = json.dumps({"message": said}).encode()
        namespace = "http://internal.amazon.com/coral/com.amazon.coral.service/"
        headers = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-ErrorType": f"{kind}:{namespace}"}
        return Answer(403, body, headers | date)

    def _reason(self, asked: Asked) -> tuple[str, str] | None:
        """AWS's name and text of what is wrong; None if it may pass."""
        found = _AUTHORIZATION.fullmatch(asked.headers.get("authorization", ""))
        if found is None:
            return "MissingAuthenticationTokenException", "Missing Authentication Token"
        key, _, region, service, names, signature = found.groups()
        if key not in self.keys or asked.headers.get("x-amz-security-token", "") != self.session_token:
            return "UnrecognizedClientException", "The security token included in the request is invalid."
        if key in self.ended:
            return "ExpiredTokenException", "The security token included in the request is expired"
        if (region, service) != (REGION, SERVICE):
            right = f"a valid region. '{region}'" if service == SERVICE else f"correct service: '{SERVICE}'"
            return "InvalidSignatureException", f"Credential should be scoped to {right}. "
        if late := self._late(asked.headers["x-amz-date"]):
            return "InvalidSignatureException", late
        if not self._is_signed(asked, key, names.split(";"), signature):
            return "InvalidSignatureException", _MISMATCH
        if asked.method in self.denied:
            said = f"User: arn:aws:iam::1:user/u is not authorized to perform: glue:{asked.method}"
            return "AccessDeniedException", said
        return None

    def _late(self, date: str) -> str:
        signed, minutes = datetime.strptime(date, _TIME).replace(tzinfo=UTC), f"{self.seconds / 60:.0f} min."
        allowed = timedelta(seconds=self.seconds)
        now, at, ends = (one.strftime(_TIME) for one in (self.now, self.now - allowed, self.now + allowed))
        if signed < self.now - allowed:
            return f"Signature expired: {date} is now earlier than {at} ({now} - {minutes})"
        if signed > self.now + allowed:
            return f"Signature not yet current: {date} is still later than {ends} ({now} + {minutes})"
        return ""

    def _is_signed(self, asked: Asked, key: str, names: list[str], signature: str) -> bool:
        headers = {name: asked.received[name] for name in names if name in asked.received}
        digest = sha256(asked.body).digest()
        # Iceberg's Java client writes it in base64.
        said = headers.get("x-amz-content-sha256", digest.hex())
        if len(headers) != len(names) or said not in (digest.hex(), b64encode(digest).decode()):
            return False
        sent = [name for name in asked.received if name.startswith("x-amz-")]
        if not {"host", *sent} <= set(names):
            return False
        url = f"http://{asked.received['host']}{asked.target}"
        request = AWSRequest(method=asked.method, url=url, data=asked.body, headers=headers)
        request.context["timestamp"] = asked.received["x-amz-date"]
        auth = SigV4Auth(Credentials(key, self.keys[key][0]), SERVICE, REGION)
        # The body's digest is that of the body, whatever the header says, which botocore takes.
        canonical = f"{auth.canonical_request(request).rpartition(chr(10))[0]}\n{digest.hex()}"
        text = auth.string_to_sign(request, canonical)
        return hmac.compare_digest(str(auth.signature(text, request)), signature)
