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

# Observations wait for systems most of their time: 600 of 100 ms take 8 s.
THREADS = 8
# One that takes longer gives its place to another component's: what hangs delays none.
PLACE_SECONDS = 2.0
# Observations without a place at once; each has a thread and clients. Beyond them nothing is observed.
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
    began: float = field(default_factory=time.monotonic)
    # Whether it still has one of the THREADS places.
    has_place: bool = True


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
        # Begun, and not ended; those of an earlier cycle have no place in this one.
        self._under_way: list[_Run] = []
        self._abandoned: list[_Run] = []
        self._lock = threading.Lock()

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
        """Observe each component once, THREADS at a time, those first that were not for longest. What takes
        longer than PLACE_SECONDS goes on beside the others'."""
        self._follow_declarations()
        self._give_up_late()
        # System -> why it is not asked in this cycle.
        unreachable = {run.asking: "no answer to an earlier request" for run in self._abandoned if run.asking}
        deadline = time.monotonic() + self._late_seconds
        slots = threading.Semaphore(THREADS)
        under_way = {id(run.component) for run in self._under_way}
        # The sort keeps the order of those that never were.
        for component in sorted(self._components.values(), key=lambda one: one.begun_at):
            if id(component) in under_way:
                continue  # it has its time, and no place
            if not self._has_place(slots, deadline):
                component.fail("not observed: earlier observations have no answer yet")
                continue
            component.begun_at = time.monotonic()
            run = _Run(component, component.next_number())
            self._under_way.append(run)
            arguments = (run, unreachable, slots)
            threading.Thread(target=self._observe, args=arguments, name="observation", daemon=True).start()
        for run in self._under_way:
            run.done.wait(_left(run.began + min(PLACE_SECONDS, self._late_seconds)))
            self._give_place(run, slots)
        self._give_up_late()

    def _give_up_late(self) -> None:
        """Abandon the observations whose time is over, and forget those that have ended."""
        self._abandoned = [run for run in self._abandoned if not run.done.is_set()]
        self._under_way = [run for run in self._under_way if not run.done.is_set()]
        for run in list(self._under_way):
            if not _left(run.began + self._late_seconds):
                self._under_way.remove(run)
                self._abandoned.append(run)
                system = run.asking or "a system"
                run.component.abandon(f"{system} has not answered for {self._late_seconds:g} s")

    def _has_place(self, slots: threading.Semaphore, deadline: float) -> bool:
        """Wait for one of the places, at most until the ``deadline``. No more than MAX_ABANDONED threads are
        beside these."""
        while True:
            late = sum(not run.has_place and not run.done.is_set() for run in self._under_way)
            if len(self._abandoned) + late >= MAX_ABANDONED:
                return False
            if slots.acquire(timeout=min(_left(deadline), PLACE_SECONDS / 8)):
                return True
            if not _left(deadline):
                return False
            for run in self._under_way:
                if not _left(run.began + PLACE_SECONDS):
                    self._give_place(run, slots)

    def _give_place(self, run: _Run, slots: threading.Semaphore) -> None:
        with self._lock:
            if run.has_place:
                run.has_place = False
                slots.release()

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
            self._give_place(run, slots)
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
