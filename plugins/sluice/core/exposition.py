"""Prometheus' text format, and the token of a scrape."""

from __future__ import annotations

import hmac

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector


def is_token(given: str, token: str) -> bool:
    """Whether a scrape has the token. In bytes: compare_digest refuses texts that are not ASCII."""
    return hmac.compare_digest(given.strip().encode(), token.encode())


def exposition(*collectors: Collector) -> bytes:
    """The text of all of them."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry)
