"""A table of a REST catalog, by plain requests with any role's token."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

import httpx

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}],
}
Json = dict[str, Any]
CLIENT = httpx.Client(timeout=60, trust_env=False)


@dataclass
class RawTable:
    """A new table of one column."""

    url: str
    token: str
    namespace: str = field(default_factory=lambda: f"raw{uuid.uuid4().hex[:6]}")
    metadata: Json = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.ask("POST", "/namespaces", {"namespace": [self.namespace]})[0] == 200
        status, made = self.ask(
            "POST", f"/namespaces/{self.namespace}/tables", {"name": "t", "schema": SCHEMA}
        )
        assert status == 200, made
        self.metadata = made["metadata"]

    @property
    def path(self) -> str:
        return f"/namespaces/{self.namespace}/tables/t"

    def ask(self, method: str, path: str, body: Json | None = None, token: str = "") -> tuple[int, Json]:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        answer = CLIENT.request(method, f"{self.url}/v1{path}", json=body, headers=headers)
        return answer.status_code, answer.json() if answer.content else {}

    def load(self) -> Json:
        status, found = self.ask("GET", self.path)
        assert status == 200, found
        return dict(found["metadata"])
