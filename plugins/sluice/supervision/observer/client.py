"""Read what the observer's process knows of a stream."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Self, TypeVar

from sluice.config.platform import Platform
from sluice.config.platform_sections.metrics import ObserverAccess
from sluice.config.stream import StreamSpec
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.json_record import Document
from sluice.supervision.observer import documents
from sluice.supervision.observer.live import FRESH_SECONDS, Live
from sluice.supervision.observer.server import PATH
from sluice.supervision.rules.sample import Sample
from sluice.supervision.serving import request

T = TypeVar("T")
SECONDS = 3.0
# Samples are judged with times of other clocks.
CLOCK_SECONDS = 10.0
FIX = "Fix: see its log (make logs); it is restarted by itself where it runs"


@dataclass(frozen=True)
class ObserverClient:
    """Each method raises Unreachable if the observer does not answer, Refused if it takes another token or
    answers in another form, Missing for what it does not know."""

    access: ObserverAccess
    clock: Callable[[], float] = time.time

    @classmethod
    def open(cls, platform: Platform) -> Self:
        """Raises Missing if the platform file does not say where it is."""
        if platform.observer is None:
            raise Missing(
                f"the platform file of role {platform.role!r} has no [observer]. Fix: add its url and token"
            )
        return cls(platform.observer)

    def stream(self, stream: str) -> dict[str, Live]:
        """Component -> what is known of it."""

        def parse(found: Any) -> dict[str, Live]:
            return {name: documents.parse(one) for name, one in found["components"].items()}

        return self._get(stream, parse)

    def streams(self) -> dict[str, dict[str, Live]]:
        """Stream -> component -> what is known of it, in brief. One request."""

        def parse(found: Any) -> dict[str, dict[str, Live]]:
            return {
                stream: {name: documents.parse(one) for name, one in components.items()}
                for stream, components in found["streams"].items()
            }

        return self._get("", parse)

    def samples(self, spec: StreamSpec, component: str) -> list[Sample]:
        """Return its samples, oldest first. Raises Unreachable, too, if the newest is older than
        FRESH_SECONDS by the observer's clock, or there is none yet, or that clock is not this one's; Refused
        if it observes another topic or table under this name."""

        def parse(found: Any) -> tuple[float, Document, list[Sample]]:
            return float(found["at"]), found["subject"], documents.parse_samples(found["samples"])

        of = f"the {component} of {spec.name}"
        now, subject, samples = self._get(f"{spec.name}/{component}", parse)
        if subject != documents.subject(spec, component):
            raise Refused(
                f"the observer at {self.access.url} observes other systems as {of}: {subject}. Fix: give it "
                "the same declarations (SLUICE_STREAMS, image), or correct url of [observer]"
            )
        if abs(now - self.clock()) > CLOCK_SECONDS:
            raise Unreachable(f"the observer's clock is {now - self.clock():.0f} s ahead of this one's")
        if not samples:
            raise Unreachable(f"the observer has no sample of {of} yet")
        age = now - samples[-1].at
        if age > FRESH_SECONDS:
            raise Unreachable(f"the observer's newest sample of {of} is {age:.0f} s old")
        return samples

    def _get(self, name: str, parse: Callable[[Any], T]) -> T:
        url = self.access.url
        try:
            status, body = request("GET", url, PATH + name, self.access.token, SECONDS)
        except (OSError, HTTPException) as error:
            raise Unreachable(f"the observer at {url} does not answer: {error}. {FIX}") from error
        except ValueError:
            # Its text may be the header with the token.
            message = f"observer: no request can have {url!r} and the token. Fix: correct [observer]"
            raise Refused(message) from None
        if status == 404:
            raise Missing(
                f"the observer does not know {name}: it reads other declarations, or has just begun"
            )
        if status != 200:
            raise Refused(f"the observer at {url} answered {status}; 401: another token in [observer]")
        try:
            return parse(json.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"the observer at {url} answers in another form ({error}): another version of Sluice"
            raise Refused(f"{message}. Fix: restart it") from error
