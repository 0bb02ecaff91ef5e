"""Observes every component of all streams, cycle after cycle, in threads of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from sluice.config.reading.toml import ConfigError
from sluice.config.stream import StreamSpec
from sluice.core.errors import ClientError
from sluice.supervision.observer.component import Clients, ObservedComponent
from sluice.supervision.observer.documents import subject
from sluice.supervision.observer.live import CYCLE_SECONDS, LATE_SECONDS, Live
from sluice.supervision.rules.sample import Sample

log = logging.getLogger(__name__)

THREADS = 4
# Abandoned observations at once; each has a thread and clients. Beyond them nothing is observed.
MAX_ABANDONED = 16
# Without any observation for longer, the process is of no use: it has hung threads only.
STUCK_SECONDS = 60.0


@dataclass
class _Run:
    """One observation, in a thread of its own."""

    component: ObservedComponent
    number: int
    clients: Clients | None = None
    done: threading.Event = field(default_factory=threading.Event)
    # The system that it waits for; "" between requests.
    asking: str = ""


class StreamObserver:
    """Observes the components of the ``declared`` streams every ``cycle_seconds``.

    ``clients``: opens those of one observation at a time, which are used again; may raise ConfigError and
    ClientError, and is then asked again. ``stamp``: clients that were opened when it was another one are not
    used again.
    """

    def __init__(
        self,
        declared: Callable[[], Sequence[StreamSpec]],
        clients: Callable[[], Clients],
        *,
        cycle_seconds: float = CYCLE_SECONDS,
        late_seconds: float = LATE_SECONDS,
        clock: Callable[[], float] = time.time,
        stamp: Callable[[], Hashable] = lambda: None,
    ) -> None:
        self._declared, self._open, self._stamp = declared, clients, stamp
        self.cycle_seconds, self._late_seconds, self._clock = cycle_seconds, late_seconds, clock
        self._components: dict[tuple[str, str], ObservedComponent] = {}
        self._end = threading.Event()
        self._observed_at = time.monotonic()
        # Each with the stamp at which it was opened.
        self._idle: list[tuple[Hashable, Clients]] = []
        self._abandoned: list[_Run] = []

    def lives(self, stream: str) -> dict[str, Live]:
        """Component -> what is known of it; empty for a stream that is not declared."""
        known = dict(self._components)
        return {component: one.live for (name, component), one in known.items() if name == stream}

    def all_lives(self) -> dict[str, dict[str, Live]]:
        """Stream -> component -> what is known of it."""
        found: dict[str, dict[str, Live]] = {}
        for (stream, component), one in dict(self._components).items():
            found.setdefault(stream, {})[component] = one.live
        return found

    def samples(self, stream: str, component: str) -> tuple[StreamSpec, list[Sample]] | None:
        """The declaration that they are of, and its samples, oldest first; None for a component that is not
        declared."""
        found = self._components.get((stream, component))
        return None if found is None else (found.spec, found.samples())

    def is_working(self) -> bool:
        """Whether something was observed within STUCK_SECONDS, or there is nothing to observe."""
        return not self._components or time.monotonic() - self._observed_at <= STUCK_SECONDS

    def run(self) -> None:
        """Observe until :meth:`stop`."""
        while not self._end.is_set():
            began = time.monotonic()
            try:
                self.cycle()
            except Exception:
                # The declarations', or a fault of its own: readers see how old what they have is.
                log.exception("the observation of the streams failed; it goes on")
            self._end.wait(max(self.cycle_seconds - (time.monotonic() - began), 1.0))

    def stop(self) -> None:
        """End it after the cycle under way."""
        self._end.set()

    def cycle(self) -> None:
        """Observe each component once, THREADS at a time."""
        self._follow_declarations()
        self._abandoned = [run for run in self._abandoned if not run.done.is_set()]
        # System -> why it is not asked in this cycle.
        unreachable = {run.asking: "no answer to an earlier request" for run in self._abandoned if run.asking}
        deadline = time.monotonic() + self._late_seconds
        slots = threading.Semaphore(THREADS)
        runs: list[_Run] = []
        for component in list(self._components.values()):
            if len(self._abandoned) >= MAX_ABANDONED or not slots.acquire(timeout=_left(deadline)):
                component.fail("not observed: earlier observations have no answer yet")
                continue
            run = _Run(component, component.next_number())
            runs.append(run)
            arguments = (run, unreachable, slots)
            threading.Thread(target=self._observe, args=arguments, name="observation", daemon=True).start()
        for run in runs:
            if not run.done.wait(_left(deadline)):
                run.component.abandon(
                    f"{run.asking or 'a system'} has not answered for {self._late_seconds:g} s"
                )
                self._abandoned.append(run)

    def _follow_declarations(self) -> None:
        specs = {spec.name: spec for spec in self._declared()}
        wanted = {(name, component) for name, spec in specs.items() for component in spec.components}
        for key in self._components.keys() - wanted:
            del self._components[key]
        for stream, name in sorted(wanted):
            spec, known = specs[stream], self._components.get((stream, name))
            if known is None or subject(known.spec, name) != subject(spec, name):
                # Samples of another topic or table are none of this one.
                self._components[stream, name] = ObservedComponent(spec, name)
            else:
                known.spec = spec

    def _observe(self, run: _Run, unreachable: dict[str, str], slots: threading.Semaphore) -> None:
        component = run.component

        def asking(system: str) -> None:
            run.asking = system

        try:
            stamp = self._stamp()
            run.clients = self._borrow(stamp)
            component.observe(run.number, run.clients, self._clock(), unreachable, asking)
            self._observed_at = time.monotonic()
        except (ClientError, ConfigError) as error:
            # The page shows it, with the age of what is known.
            component.fail(str(error), run.number)
        except Exception as error:
            # As of a thread that ends: pages would show the last state for ever without a reason.
            log.exception("%s of %s cannot be observed", component.name, component.spec.name)
            component.fail(f"{type(error).__name__}, see the observer's log", run.number)
        finally:
            run.done.set()
            slots.release()
            if run.clients is not None:
                # Also an abandoned run's, now that it has returned.
                self._idle.append((stamp, run.clients))

    def _borrow(self, stamp: Hashable) -> Clients:
        while True:
            try:
                opened_at, clients = self._idle.pop()
            except IndexError:
                return self._open()
            if opened_at == stamp:
                return clients


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.0)
