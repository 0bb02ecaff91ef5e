"""``[supervisor]`` of a platform file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from sluice.config.reading.urls import check_encrypted, check_url


@dataclass(frozen=True)
class Supervisor:
    """supervisord's XML-RPC address and login."""

    url: Annotated[str, "supervisord's XML-RPC address; `make up` writes this section"]
    username: Annotated[str, "of supervisord"]
    password: Annotated[str, "of supervisord"] = field(repr=False)
    plain_text: Annotated[
        bool, "true: the login is sent to another machine over `http://`, in a network that you trust"
    ] = False


def check(supervisor: Supervisor, where: str) -> None:
    """Raises ConfigError naming ``where`` and the key, never the password."""
    check_url(supervisor.url, f"{where}: supervisor url")
    if not supervisor.plain_text:
        check_encrypted(supervisor.url, f"{where}: supervisor url")
