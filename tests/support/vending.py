"""A server before a REST catalog, which gives keys of MinIO for each table, as Polaris and Lakekeeper do.

The keys are MinIO's own, of AssumeRole, with a session policy of the table's folder. MinIO gives none that
live for less than 15 minutes: those that shall end sooner are of a user that is then removed.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import boto3
from aiohttp import ClientSession, ClientTimeout, web
from minio.credentials import StaticProvider
from minio.minioadmin import MinioAdmin

from local.runtime.processes import ServerThread
from local.runtime.roles import CATALOG_WRITERS, WAREHOUSE, s3_policies
from local.services import minio
from sluice.config.platform import Platform
from sluice.config.platform_sections.catalog import VENDED
from tests.support.services import Services

HOST = "127.0.0.1"
# The least that MinIO's AssumeRole takes.
LEAST_SECONDS = 900
_TABLE = re.compile(r"/v1/(?:[^/]+/)?namespaces/[^/]+/tables/[^/]+")
_TABLES = re.compile(r"/v1/(?:[^/]+/)?namespaces/[^/]+/(?:tables|register)")
_CREDENTIALS = "/credentials"
_ENDPOINT = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
_READ = ["s3:GetObject"]
_WRITE = ["s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]


@dataclass(frozen=True)
class Given:
    """Keys for one folder: Iceberg's properties, and until when (seconds since 1970)."""

    properties: Mapping[str, str]
    ends: float


@dataclass
class Vending:
    """How keys are given, which a test may change while the server runs.

    ``seconds``: how long they live; ``in_config``: they are among the table's properties, else below
    `storage-credentials`; ``refreshes``: their renewal is offered; ``says_end``: they say when they end;
    ``prefix``: of other objects than the table's; ``is_readonly``: also a writer may only read;
    ``is_silent``: none are given.
    """

    seconds: float = LEAST_SECONDS
    in_config: bool = True
    refreshes: bool = True
    says_end: bool = True
    prefix: str = ""
    is_readonly: bool = False
    is_silent: bool = False
    # Further properties of each table.
    config: Mapping[str, str] = field(default_factory=dict)
    # Folder and right -> the keys for it.
    given: dict[tuple[str, bool], Given] = field(default_factory=dict)
    # For which folders, each time that new ones were made.
    made: list[str] = field(default_factory=list)


class VendingCatalog(ServerThread):
    """The server, in a thread of its own."""

    def __init__(self, services: Services) -> None:
        super().__init__("vending-catalog")
        self.vending = Vending()
        self._services, self._upstream = services, services.rest_catalog
        self._writers = {services.stack.secrets[f"catalog_{role}"] for role in CATALOG_WRITERS}
        self._admin = MinioAdmin(
            endpoint=services.minio_url.removeprefix("http://"),
            credentials=StaticProvider(minio.ROOT_USER, services.stack.secrets["minio_root"]),
            secure=False,
        )
        self._secret = uuid.uuid4().hex
        self._users: list[str] = []
        whole = [f"arn:aws:s3:::{WAREHOUSE}", f"arn:aws:s3:::{WAREHOUSE}/lake/*"]
        rights = [{"Effect": "Allow", "Action": ["s3:*"], "Resource": whole}]
        self._admin.policy_add("vending", policy={"Version": "2012-10-17", "Statement": rights})
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    def platform(self, role: str) -> Platform:
        """A role's platform file with this catalog, and a login of MinIO that has no right to any table."""
        made = self._services.on_rest(role)
        name = self._bare_user(role)
        lake = replace(made.lake, catalog=replace(made.lake.catalog, uri=self.url, access_delegation=VENDED))
        keys = replace(made.s3, access_key=name, secret_key=self._secret)
        return replace(made, lake=lake, s3=keys)

    def _bare_user(self, role: str) -> str:
        name, bucket = f"bare-{role}", f"arn:aws:s3:::{WAREHOUSE}"
        policy = s3_policies()[role]
        objects = {"Effect": "Deny", "Action": ["s3:*Object"], "Resource": [f"{bucket}/lake/*"]}
        listed = {
            "Effect": "Deny",
            "Action": ["s3:ListBucket"],
            "Resource": [bucket],
            "Condition": {"StringLike": {"s3:prefix": ["lake/*"]}},
        }
        denied = {**policy, "Statement": [*policy["Statement"], objects, listed]}
        self._admin.policy_add(name, policy=denied)
        self._admin.user_add(name, self._secret)
        self._admin.policy_set(name, user=name)
        return name

    def keys(self, location: str, *, writes: bool) -> Given:
        """Keys for a table's folder, new ones once half of the time of those before is over."""
        known, seconds = self.vending.given.get((location, writes)), self.vending.seconds
        if known is None or known.ends - time.time() < seconds / 2:
            known = self.vending.given[location, writes] = self._make(location, writes, seconds)
        return known

    def revoke(self) -> None:
        """End all keys that were given."""
        self.vending.given.clear()
        while self._users:
            self._admin.user_remove(self._users.pop())

    def _make(self, location: str, writes: bool, seconds: float) -> Given:
        self.vending.made.append(location)
        place = self.vending.prefix or location.removeprefix("s3://")
        bucket = place.partition("/")[0]
        policy = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Action": _READ + (_WRITE if writes else []),
                    "Resource": [f"arn:aws:s3:::{place}/*"],
                },
                {
                    "Effect": "Allow",
                    "Action": ["s3:ListBucket"],
                    "Resource": [f"arn:aws:s3:::{bucket}"],
                    "Condition": {"StringLike": {"s3:prefix": [f"{place.partition('/')[2]}/*"]}},
                },
            ],
        }
        user = f"vending-{uuid.uuid4().hex[:12]}"
        self._admin.user_add(user, self._secret)
        self._admin.policy_set("vending", user=user)
        self._users.append(user)
        ends = time.time() + seconds
        sts = boto3.client(
            "sts",
            endpoint_url=self._services.minio_url,
            region_name="us-east-1",
            aws_access_key_id=user,
            aws_secret_access_key=self._secret,
        )
        answer = sts.assume_role(
            RoleArn="arn:aws:iam::000000000000:role/table",
            RoleSessionName="table",
            Policy=json.dumps(policy),
            DurationSeconds=max(LEAST_SECONDS, int(seconds)),
        )["Credentials"]
        return Given(
            {
                "s3.access-key-id": answer["AccessKeyId"],
                "s3.secret-access-key": answer["SecretAccessKey"],
                "s3.session-token": answer["SessionToken"],
                **(
                    {"s3.session-token-expires-at-ms": str(int(ends * 1000))} if self.vending.says_end else {}
                ),
                "s3.endpoint": self._services.minio_url,
                "s3.path-style-access": "true",
                "client.region": "us-east-1",
            },
            ends,
        )

    def _answer(self, path: str, answer: dict[str, Any], writes: bool) -> dict[str, Any]:
        """A table as the catalog has it, with keys."""
        location = answer["metadata"]["location"]
        keys = self.keys(location, writes=writes and not self.vending.is_readonly).properties
        config = {**answer.get("config", {}), **self.vending.config}
        if self.vending.refreshes:
            config["client.refresh-credentials-endpoint"] = f"{path.lstrip('/')}{_CREDENTIALS}"
        if self.vending.in_config:
            return answer | {"config": {**config, **keys}}
        return answer | {"config": config, "storage-credentials": [self._credential(location, keys)]}

    def _credential(self, location: str, keys: Mapping[str, str]) -> dict[str, Any]:
        return {"prefix": f"s3://{self.vending.prefix}" if self.vending.prefix else location, "config": keys}

    async def _serve(self, end: asyncio.Event) -> None:
        async with ClientSession(timeout=ClientTimeout(total=90)) as session:

            async def handle(request: web.BaseRequest) -> web.StreamResponse:
                return await self._handle(request, session)

            runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=1.0)
            await runner.setup()
            try:
                site = web.TCPSite(runner, HOST, 0)
                await site.start()
                self._port = int(runner.addresses[0][1])
                self._ready.set()
                ending = asyncio.create_task(self._end_keys())
                await end.wait()
                ending.cancel()
            finally:
                await runner.cleanup()

    async def _end_keys(self) -> None:
        """Remove the users whose keys have ended."""
        ends: dict[str, float] = {}
        while True:
            await asyncio.sleep(0.5)
            for user in list(self._users):
                if self.vending.seconds >= LEAST_SECONDS:
                    continue
                if time.time() > ends.setdefault(user, time.time() + self.vending.seconds):
                    self._users.remove(user)
                    await asyncio.to_thread(self._admin.user_remove, user)

    async def _handle(self, request: web.BaseRequest, session: ClientSession) -> web.StreamResponse:
        path, is_renewal = request.path, request.path.endswith(_CREDENTIALS)
        passed = {
            name: value
            for name, value in request.headers.items()
            if name.lower() in ("authorization", "content-type", "accept", "idempotency-key")
        }
        target = request.raw_path.removesuffix(_CREDENTIALS) if is_renewal else request.raw_path
        async with session.request(
            request.method, f"{self._upstream}{target}", headers=passed, data=await request.read()
        ) as upstream:
            body, status = await upstream.read(), upstream.status
            kind = upstream.content_type
        wants = request.headers.get("X-Iceberg-Access-Delegation") == VENDED
        writes = request.headers.get("Authorization", "").removeprefix("Bearer ") in self._writers
        if status == 200 and path == "/v1/config":
            found = json.loads(body)
            if found.get("endpoints"):
                found["endpoints"].append(_ENDPOINT)
            body = json.dumps(found).encode()
        elif status == 200 and is_renewal:
            location = json.loads(body)["metadata"]["location"]
            keys = await asyncio.to_thread(self.keys, location, writes=writes)
            body = json.dumps({"storage-credentials": [self._credential(location, keys.properties)]}).encode()
        elif status == 200 and wants and not self.vending.is_silent and self._is_table(request.method, path):
            table = path if _TABLE.fullmatch(path) else f"{path}/{json.loads(await request.read())['name']}"
            changed = await asyncio.to_thread(self._answer, table, json.loads(body), writes)
            body = json.dumps(changed).encode()
        return web.Response(status=status, body=body, headers={"Content-Type": kind})

    @staticmethod
    def _is_table(method: str, path: str) -> bool:
        """Whether the answer to a request is a table with its properties."""
        if method == "GET":
            return _TABLE.fullmatch(path) is not None
        return method == "POST" and _TABLES.fullmatch(path) is not None
