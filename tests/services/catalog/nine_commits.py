"""The nine commits by which a writer works, as plain requests of a REST catalog."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
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


@dataclass(frozen=True)
class Answer:
    """What a commit tried, the status that a catalog must give, and the one that it gave."""

    tried: str
    expected: int
    status: int


@dataclass
class ScratchTable:
    """A table of one column, of which one snapshot after the other is a list of no files."""

    url: str
    token: str
    namespace: str = field(default_factory=lambda: f"scratch{uuid.uuid4().hex[:6]}")
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

    def snapshot(self, parent: int | None, sequence: int) -> Json:
        number = uuid.uuid4().int >> 66
        made = {
            "snapshot-id": number,
            "sequence-number": sequence,
            "timestamp-ms": int(time.time() * 1000),
            "manifest-list": f"{self.metadata['location']}/metadata/snap-{number}.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        return made if parent is None else made | {"parent-snapshot-id": parent}

    def commit(self, *updates: Json, **expected: int | None) -> int:
        """The status. ``expected``: ref -> its snapshot, None for no such ref."""
        requirements = [{"type": "assert-table-uuid", "uuid": self.metadata["table-uuid"]}]
        requirements += [
            {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": number}
            for name, number in expected.items()
        ]
        return self.ask("POST", self.path, {"requirements": requirements, "updates": list(updates)})[0]


def added(snapshot: Json) -> Json:
    return {"action": "add-snapshot", "snapshot": snapshot}


def moved(name: str, snapshot: int) -> Json:
    return {"action": "set-snapshot-ref", "ref-name": name, "type": "branch", "snapshot-id": snapshot}


def removed(name: str) -> Json:
    return {"action": "remove-snapshot-ref", "ref-name": name}


def nine_commits(table: ScratchTable) -> Iterator[Answer]:
    """Each with the answer that a writer relies on."""
    first = table.snapshot(None, 1)
    a = first["snapshot-id"]
    status = table.commit(added(first), moved("main", a), moved("w1_x", a), main=None, w1_x=None)
    yield Answer("1 acquire: a snapshot, main and a branch at once", 200, status)
    batch = table.snapshot(a, 2)
    b = batch["snapshot-id"]
    yield Answer("2 append to the branch", 200, table.commit(added(batch), moved("w1_x", b), w1_x=a))
    yield Answer("3 publish", 200, table.commit(moved("main", b), main=a, w1_x=b))
    yield Answer("4 publish again, by what main was", 409, table.commit(moved("main", a), main=a))
    other = table.snapshot(b, 3)
    status = table.commit(added(other), moved("w1_x", other["snapshot-id"]), main=a)
    yield Answer("5 expect of main, which it does not move, what it was", 409, status)
    epoch = table.snapshot(b, 3)
    d = epoch["snapshot-id"]
    status = table.commit(
        *(added(epoch), moved("main", d), moved("w2_y", d), removed("w1_x")), main=b, w2_y=None, w1_x=b
    )
    yield Answer("6 acquire by a second writer, and remove the first's branch", 200, status)
    zombie = table.snapshot(b, 4)
    status = table.commit(added(zombie), moved("w1_x", zombie["snapshot-id"]), w1_x=b)
    yield Answer("7 append to the removed branch", 409, status)
    last = table.snapshot(d, 4)
    f = last["snapshot-id"]
    assert table.commit(added(last), moved("w2_y", f), w2_y=d) == 200
    expiry = {"action": "remove-snapshots", "snapshot-ids": [a]}
    status = table.commit(moved("main", f), expiry, main=d, w2_y=f)
    yield Answer("8 publish, and expire a snapshot", 200, status)
    old = table.snapshot(d, 1)
    status = table.commit(added(old), moved("w2_y", old["snapshot-id"]), w2_y=f)
    yield Answer("9 append with an old sequence number", 400, status)
