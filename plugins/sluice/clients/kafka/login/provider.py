"""Tokens as kafka-python asks for them: with each connection, and each time that one logs in again."""

from __future__ import annotations

from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth

from sluice.clients.kafka.login.tokens import tokens
from sluice.config.platform_sections.kafka import OAUTHBEARER, Kafka


class FirstRefusal(SaslMechanismOAuth):
    """Ends the exchange with the broker's first words of a token that it refuses (RFC 7628, 3.2.3). The
    library answers them, and waits for others, before which brokers may close the connection."""

    def receive(self, auth_bytes: bytes) -> None:
        if auth_bytes:
            raise SaslAuthenticationFailedError(auth_bytes.decode(errors="replace"))
        super().receive(auth_bytes)


register_sasl_mechanism(OAUTHBEARER, FirstRefusal, overwrite=True)


class TokenProvider(AbstractTokenProvider):
    def __init__(self, kafka: Kafka) -> None:
        super().__init__()
        self._kafka = kafka

    def token(self) -> str:
        return tokens(self._kafka).current().value

    def extensions(self) -> dict[str, str]:
        return dict(self._kafka.extensions)
