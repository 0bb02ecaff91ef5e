"""A stack on a Kafka and an S3 of others: tokens, sessions and certificates of seconds, which are renewed
while it runs, until a test lets them end."""

from __future__ import annotations

import os
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local.runtime import roles
from local.services import kafka
from local.stack.stack import Stack
from sluice.config.platform import ROLES
from sluice.connection_check.rights.kafka import kafka_user
from tests.support.kafka_logins import LoginBroker
from tests.support.s3_logins import LoginMinio

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# A token for Kafka; a web identity, with which its session of S3 ends; a role's certificate.
TOKEN_SECONDS, SESSION_SECONDS, CERTIFICATE_SECONDS = 10.0, 20.0, 60.0
# Each is renewed several times within its own time.
RENEWAL_SECONDS = 4.0
# The others log in by tokens.
BY_CERTIFICATE = ("airflow", "maintenance")


class Logins:
    """Servers of their own, and what keeps the logins of a stack's roles: one file of a web identity, and
    certificates of some roles."""

    def __init__(self, folder: Path) -> None:
        self.broker = LoginBroker(_made(folder / "kafka"))
        self.broker.tokens.lifetime = TOKEN_SECONDS
        self.store = LoginMinio(_made(folder / "minio"))
        for bucket in (roles.WAREHOUSE, roles.SOURCE):
            self.store.root.put_bucket_versioning(
                Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}
            )
        self.identity, self.files = folder / "identity", folder / "files"
        self.renew()
        self._has_ended, self._keeper = threading.Event(), threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def renew(self) -> None:
        self.store.renew(self.identity, SESSION_SECONDS)
        for role in BY_CERTIFICATE:
            self.broker.renew(role, timedelta(seconds=CERTIFICATE_SECONDS))

    def _keep(self) -> None:
        while not self._has_ended.wait(RENEWAL_SECONDS):
            self.renew()

    @contextmanager
    def left_to_end(self) -> Iterator[None]:
        """Nothing renews them meanwhile."""
        self._has_ended.set()
        self._keeper.join()
        try:
            yield
        finally:
            self.renew()
            self._has_ended, self._keeper = (
                threading.Event(),
                threading.Thread(target=self._keep, daemon=True),
            )
            self._keeper.start()

    @property
    def asked(self) -> Counter[str]:
        """Role -> how many tokens for Kafka it asked for."""
        users = {kafka_user(role): role for role in ROLES}
        return Counter(users[form["client_id"]] for form in self.broker.tokens.asked)

    def write(self) -> Path:
        """The folder for SLUICE_EXTERNAL."""
        s3 = self.store.of_token(self.identity)
        documents: dict[str, roles.Document] = {}
        for role in ROLES:
            login = self.broker.by_certificate if role in BY_CERTIFICATE else self.broker.by_token
            documents[role] = {
                "role": role,
                "kafka": _declared(login(role)),
                "s3": _declared(s3),
                "lake": {
                    "warehouse": f"s3://{roles.WAREHOUSE}/lake",
                    "ledger": f"s3://{roles.WAREHOUSE}/ledger",
                },
            }
        self.files.mkdir(exist_ok=True)
        roles.write(self.files, documents)
        return self.files

    def slow_down(self, role: str, bytes_per_second: int) -> None:
        """A quota of Kafka for what a role's programs send."""
        context = self.broker.context
        config = context.home.conf / "kafka" / "admin.properties"
        login = kafka.admin_config(context)
        module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        jaas = f'{module} username="{login["sasl.username"]}" password="{login["sasl.password"]}";'
        config.touch(mode=0o600)
        config.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n"
        )
        command = [str(context.java), "-cp", f"{context.kafka_jars}/*", "kafka.admin.ConfigCommand"]
        command += ["--bootstrap-server", context.network.bootstrap_servers, "--command-config", str(config)]
        command += ["--alter", "--entity-type", "users", "--entity-name", kafka_user(role)]
        command += ["--add-config", f"producer_byte_rate={bytes_per_second}"]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def stop(self) -> None:
        self._has_ended.set()
        self._keeper.join()
        self.store.stop()
        self.broker.stop()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _declared(section: Any) -> dict[str, Any]:
    return {key: value for key, value in asdict(section).items() if value}


class LoggedInStack(Stack):
    """With the catalog, the checkpoints and the processes of a stack's own."""

    logins: Logins

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"external": str(self.logins.files)}

    def admin_s3(self) -> S3Client:
        found: S3Client = self.logins.store.root
        return found

    def kafka(self, role: str) -> dict[str, Any]:
        return kafka.admin_config(self.logins.broker.context) if role == "admin" else super().kafka(role)
