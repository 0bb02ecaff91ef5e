"""``[supervisor]`` of a platform file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated


@dataclass(frozen=True)
class Supervisor:
    """supervisord's XML-RPC address and login."""

    url: Annotated[str, "supervisord's XML-RPC address; `make up` writes this section"]
    username: Annotated[str, "of supervisord"]
    password: Annotated[str, "of supervisord"] = field(repr=False)
