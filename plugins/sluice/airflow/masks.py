"""Masks of secrets that Airflow does not know as a connection's, in the logs of tasks and triggers."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import quote

from airflow.sdk.log import mask_secret

from sluice.config.reading import toml as config

T = TypeVar("T")


def masked(settings: T) -> T:
    """Mask the secrets of a platform file or database from now on, also as they read in a URL; return it."""
    # Airflow itself leaves out those of fewer characters than [logging] min_length_masked_secret.
    found = config.secrets(settings)
    mask_secret([form for secret in found for form in (secret, quote(secret, safe=""))])
    return settings
