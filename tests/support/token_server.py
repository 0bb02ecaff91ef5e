"""An authorization server of OAuth2: tokens for clients that log in, and the keys that verify them."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

ISSUER, AUDIENCE, KEY_ID = "https://issuer.test", "kafka", "one"


@dataclass
class TokenServer:
    """On a port of its own of this machine. Client ids are principals; ``secrets``: of each.

    ``lifetime``: of tokens, in seconds; ``clock``: how far its clock is ahead; ``failure``: the status that
    is answered instead of a token; ``asked``: forms of requests.
    """

    secrets: dict[str, str]
    lifetime: float = 300.0
    clock: float = 0.0
    failure: int = 0
    asked: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_keys = self.path == "/jwks"
                self._answer(200, server.keys() if is_keys else server.discovery())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._answer(*server.answer(self.headers.get("Authorization", ""), dict(parse_qsl(body))))

            def _answer(self, status: int, document: Mapping[str, Any]) -> None:
                content = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, text: str, *args: Any) -> None:
                """Nothing: the tests' output is theirs."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/token"

    @property
    def keys_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/jwks"

    @property
    def discovery_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/.well-known/openid-configuration"

    def discovery(self) -> dict[str, Any]:
        """As OpenID Connect's clients look for the rest."""
        return {"issuer": ISSUER, "jwks_uri": self.keys_url, "token_endpoint": self.url}

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def keys(self) -> dict[str, Any]:
        document = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        return {"keys": [document | {"kid": KEY_ID, "alg": "RS256", "use": "sig"}]}

    def token(self, subject: str, lifetime: float | None = None, audience: str = AUDIENCE) -> str:
        now = time.time() + self.clock
        document = {
            "iss": ISSUER,
            "aud": audience,
            "sub": subject,
            "scope": "kafka",
            "iat": int(now),
            "exp": int(now + (self.lifetime if lifetime is None else lifetime)),
        }
        return jwt.encode(document, self._key, algorithm="RS256", headers={"kid": KEY_ID})

    def answer(self, login: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        user, _, secret = base64.b64decode(login.removeprefix("Basic ")).decode().partition(":")
        self.asked.append({"client_id": user, **form})
        if self.failure:
            return self.failure, {"error": "server_error"}
        if self.secrets.get(user) != secret:
            return 401, {"error": "invalid_client", "error_description": "client secret is wrong"}
        token = self.token(user)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lifetime)}
