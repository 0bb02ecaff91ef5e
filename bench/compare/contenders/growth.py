"""What history costs: a stream that its own consumer makes longer, measured as it is.

Its history is one load that goes on: records of one source, so that each batch looks up what is loaded
already. The consumer's log says when a batch is published, so waiting costs no S3 call.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from bench.compare.contenders.jobs import Event, Sluice
from bench.compare.figures import Figures, prefixed
from bench.compare.meter import Meter, S3Calls
from bench.compare.stack import BenchStack, phase
from sluice.clients.processes.parent import WORKED_SECONDS
from tests.support.processes import component_processes, signal_all
from tests.support.traffic import Trips

RECORDS_PER_BATCH = 100
PARTITIONS = 2
# Until the batches are steady after a start; then measured ones: two periods of what is done every tenth.
WARM_UP, MEASURED = 10, 20
LOADED_ROWS = 200


class GrowingSluice(Sluice):
    """A stream without another producer. ``batches``: the published ones."""

    def __init__(self, bench: BenchStack, stream: str) -> None:
        super().__init__(bench, stream)
        self._trips, self._producer = Trips(self.stream), self.stream.producer()
        self.batches = self._sent = self._loads = 0

    def grow(self, batches: int) -> None:
        """Publish until the stream has that many batches, as fast as the consumer does."""
        with self.running():
            while self.batches < batches:
                self.publish(self._keys(min(50, batches - self.batches)))

    def measure(self) -> Figures:
        """Figures of MEASURED batches, of a failover, and of the verification of a small load."""
        with self.running() as meter:
            self.publish(self._keys(WARM_UP))
            calls, began = S3Calls(self.bench.stack), time.time()
            found = self.publish(self._keys(MEASURED))
            batch = phase(meter, MEASURED * RECORDS_PER_BATCH, began, found[-1].at) | calls.figures()
            recovery, validate = self.fail_over(), self._load()
        sizes = {"metadata_bytes": float(len(self.stream.table().metadata.model_dump_json()))}
        return prefixed(batch=batch, recovery=recovery, validate=validate) | sizes

    def measure_with_sources(self, count: int) -> Figures:
        """Figures of a failover when one row of each of that many sources is loaded, too."""
        with self.running():
            self.publish([f"{number:016x}:0:0" for number in range(count)])
            return self.fail_over()

    def publish(self, keys: Sequence[str]) -> list[Event]:
        """Send a record per key; the events of the consumer's log until all are published."""
        self._read = self.log.stat().st_size if self.log.exists() else 0
        self._send(keys)
        return self._wait(len(keys))

    def fail_over(self) -> Figures:
        """Kill the consumer (-9); seconds until a successor has published, and what it spent until then.

        ``beyond_start_seconds``: without the time until its Spark session is up, by its log.
        """
        since = self.stream.status().since or 0.0
        # Otherwise the runtime would delay the restart.
        time.sleep(max(since + WORKED_SECONDS + 1 - time.time(), 0.0))
        self._read, killed = self.log.stat().st_size, time.time()
        signal_all(component_processes(self.stream, self.spec.program), signal.SIGKILL)
        self._send(self._keys(1))
        at = {event.what: event.at for event in reversed(self._wait(RECORDS_PER_BATCH))}
        return {
            "seconds": round(at["batch published"] - killed, 2),
            "beyond_start_seconds": round(at["batch published"] - at["Spark started"], 2),
            "lease_seconds": round(at["lease acquired"] - at["Spark started"], 2),
            "cpu_seconds": self._cpu_seconds(),
        }

    def _cpu_seconds(self) -> float:
        """Return the CPU seconds of the consumer's own process since its start."""
        pid = self.stream.status().pid
        if pid is None:
            raise RuntimeError(f"{self.spec.program} does not run: {self.stream.status().message()}")
        meter = Meter({"job": pid})
        meter.step()
        return round(meter.samples["job"][-1][1], 2)

    def _load(self) -> Figures:
        """Load a CSV object; figures of its verification."""
        self._loads += 1
        self.run_id, prefix = f"load-{self._loads}", f"{self.spec.name}/{self._loads}/"
        self.bench.put_objects(prefix, LOADED_ROWS, 1)
        self._read = self.log.stat().st_size
        self.produce(prefix, LOADED_ROWS)
        self._wait(LOADED_ROWS)
        return self.validate()

    def _keys(self, batches: int) -> list[str]:
        first, self._sent = self._sent, self._sent + batches * RECORDS_PER_BATCH
        return [f"{'f' * 16}:{number}:{number // PARTITIONS}" for number in range(first, self._sent)]

    def _send(self, keys: Sequence[str]) -> None:
        """A record per key, over all partitions in turn."""
        for number, key in enumerate(keys):
            body, partition = self._trips.body(number), number % PARTITIONS
            self._producer.produce(self.spec.topic.name, body, key=key.encode(), partition=partition)
            self._producer.poll(0)
        if left := self._producer.flush(60):
            raise TimeoutError(f"{left} records were not taken by Kafka within 60 s")

    def _wait(self, records: int) -> list[Event]:
        found = self.wait_for_records(records)
        self.batches += sum(1 for event in found if event.records)
        return found
