"""A broker with a listener for each kind of login: passwords, tokens, certificates."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from local.runtime.ports import free_ports, free_range
from local.services import kafka
from local.stack.stack import Stack
from sluice.config.platform import ROLES
from sluice.config.platform_sections.kafka import OAUTHBEARER, Kafka
from sluice.connection_check.rights.kafka import kafka_user
from tests.support.certificates import Authority
from tests.support.jvm import QUICK
from tests.support.token_server import AUDIENCE, ISSUER, TokenServer

START_SECONDS = 60
PASSPHRASE = "a passphrase"
# Sessions of tokens end with these, or after this time.
REAUTH_MS = 10_000


class LoginBroker:
    """A broker whose users are the stack's roles, however they log in."""

    def __init__(self, folder: Path) -> None:
        self.stack = Stack(folder / "stack", free_ports=True, java_options=QUICK)
        self.stack.home.prepare()
        self.stack.home.remember(ports=self.stack.ports)
        self.tokens = TokenServer({kafka_user(role): f"secret of {role}".replace(" ", "-") for role in ROLES})
        self.authority = Authority(folder / "authority")
        self._certificates: dict[str, tuple[Path, Path]] = {}
        taken = set(self.stack.ports.values())
        self.token_port, self.certificate_port = free_ports(2, taken, free_range({}))
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.tokens.keys_url}"
        self.context = replace(self.stack.context, java_options=f"{QUICK} {allowed}")
        kafka.prepare(self.context)
        certificate, key = self.authority.issue("broker")
        keystore = folder / "authority" / "broker.pem"
        keystore.write_text(key.read_text() + certificate.read_text())
        properties = self.context.home.conf / "kafka" / "server.properties"
        properties.write_text(self._with_listeners(properties.read_text(), keystore))
        self._start()

    def _with_listeners(self, text: str, keystore: Path) -> str:
        listeners = {"TOKENS": self.token_port, "CERTIFICATES": self.certificate_port}
        further = ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items())
        lines = []
        for line in text.splitlines():
            if line.startswith(("listeners=", "advertised.listeners=")):
                lines.append(f"{line},{further}")
            elif line.startswith("listener.security.protocol.map="):
                lines.append(f"{line},TOKENS:SASL_PLAINTEXT,CERTIFICATES:SSL")
            else:
                lines.append(line)
        tokens, certificates = "listener.name.tokens", "listener.name.certificates"
        module = "org.apache.kafka.common.security.oauthbearer"
        lines += [
            f"{tokens}.sasl.enabled.mechanisms=OAUTHBEARER",
            f"{tokens}.oauthbearer.sasl.jaas.config={module}.OAuthBearerLoginModule required ;",
            f"{tokens}.oauthbearer.sasl.server.callback.handler.class={module}.OAuthBearerValidatorCallbackHandler",
            f"{tokens}.oauthbearer.connections.max.reauth.ms={REAUTH_MS}",
            # By default it verifies no signature, and no audience either (Kafka 4.1.1, tried).
            f"sasl.oauthbearer.jwt.validator.class={module}.BrokerJwtValidator",
            f"sasl.oauthbearer.jwks.endpoint.url={self.tokens.keys_url}",
            f"sasl.oauthbearer.expected.audience={AUDIENCE}",
            f"sasl.oauthbearer.expected.issuer={ISSUER}",
            f"{certificates}.ssl.client.auth=required",
            f"{certificates}.ssl.keystore.type=PEM",
            f"{certificates}.ssl.keystore.location={keystore}",
            f"{certificates}.ssl.truststore.type=PEM",
            f"{certificates}.ssl.truststore.location={self.authority.ca}",
            "ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        ]
        return "".join(f"{line}\n" for line in lines)

    def _start(self) -> None:
        program, log = kafka.program(self.context), self.context.home.logs / "kafka.log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                list(program.command),
                env=dict(program.environment),
                cwd=program.directory,
                stdout=out,
                stderr=out,
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                kafka.probe(self.context)
                return
            except KafkaException as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    end = log.read_text()[-3000:]
                    raise AssertionError(f"Kafka did not start ({error}):\n{end}") from error
                time.sleep(0.2)

    def make_topic(self, name: str) -> None:
        """A topic of one partition, with the roles' rights on it."""
        kafka.provision(self.context, [name])
        admin = AdminClient(kafka.admin_config(self.context))
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)

    def restart(self) -> None:
        """End all connections."""
        self._process.terminate()
        self._process.wait(30)
        self._start()

    def by_token(self, role: str = "consumer") -> Kafka:
        """A role's login by the tokens of an endpoint."""
        user = kafka_user(role)
        return Kafka(
            f"127.0.0.1:{self.token_port}",
            "SASL_PLAINTEXT",
            OAUTHBEARER,
            sasl_oauthbearer_token_endpoint_url=self.tokens.url,
            sasl_oauthbearer_client_id=user,
            sasl_oauthbearer_client_secret=self.tokens.secrets[user],
            sasl_oauthbearer_audience=AUDIENCE,
            sasl_oauthbearer_scope="kafka",
        )

    def by_token_file(self, path: Path) -> Kafka:
        return Kafka(
            f"127.0.0.1:{self.token_port}",
            "SASL_PLAINTEXT",
            OAUTHBEARER,
            sasl_oauthbearer_token_endpoint_url=f"file://{path}",
        )

    def by_certificate(self, role: str = "consumer", **other: str) -> Kafka:
        """A role's login by a certificate, whose key is encrypted; ``other``: keys in place of these."""
        certificate, key = self._certificate(role)
        keys = {
            "ssl_ca_location": str(self.authority.ca),
            "ssl_certificate_location": str(certificate),
            "ssl_key_location": str(key),
            "ssl_key_password": PASSPHRASE,
        }
        found: dict[str, Any] = keys | other
        return Kafka(f"127.0.0.1:{self.certificate_port}", "SSL", **found)

    def _certificate(self, role: str) -> tuple[Path, Path]:
        return self._certificates.get(role) or self.renew(role)

    def renew(self, role: str = "consumer", valid: timedelta = timedelta(days=1)) -> tuple[Path, Path]:
        """Give a role a certificate and a key, in place of those that it has; ``valid``: as of
        :meth:`Authority.issue`."""
        made = self.authority.issue(kafka_user(role), file=f"role-{role}", passphrase=PASSPHRASE, valid=valid)
        self._certificates[role] = made
        return made

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.tokens.stop()
