"""Tokens as kafka-python asks for them: with each connection, and each time that one logs in again."""

from __future__ import annotations

from kafka.net.sasl.oauth import AbstractTokenProvider

from sluice.clients.kafka.login.tokens import tokens
from sluice.config.platform_sections.kafka import Kafka


class TokenProvider(AbstractTokenProvider):
    def __init__(self, kafka: Kafka) -> None:
        super().__init__()
        self._kafka = kafka

    def token(self) -> str:
        return tokens(self._kafka).current().value

    def extensions(self) -> dict[str, str]:
        return dict(self._kafka.extensions)
