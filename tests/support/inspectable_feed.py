"""The replayed feed with what tests compare its events with."""

from __future__ import annotations

import json
from typing import Any

from local.replay.events import SERVERS, Feed, User


class InspectableFeed(Feed):
    def changed_at(self, n: int) -> int:
        """`timestamp` of event n: when the change was made, whole seconds since 1970."""
        return self._changed(n, self._draw(n).int)

    def is_late(self, n: int) -> bool:
        return self._late(self._draw(n).int)

    def user(self, n: int) -> User:
        return self._users[self._draw(n).int % len(self._users)][0]

    def server(self, n: int) -> tuple[str, str]:
        """The server's name and the wiki's."""
        return SERVERS[self._servers[(self._draw(n).int >> 12) % len(self._servers)]]

    def event(self, n: int) -> dict[str, Any]:
        """Event n, parsed."""
        return dict(json.loads(self.data(n)))
