"""An application of Kafka Streams with exactly-once delivery, in a JVM of its own: it counts records by key.

No compiler is needed: its topology has no function of its own, and Python builds it over Py4J.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from local.setup import cache
from local.setup.bootstrap import java_home
from local.setup.jar_sets import ensure_jars
from local.stack.stack import wait_until
from sluice.config.reading.files import write_private
from tests.support.connect_worker import LOG4J, java_login
from tests.support.jvm import QUICK
from tests.support.services import Services

START_SECONDS = 60
# Kafka's Java API has names that are words of Python.
_WITH, _AS = "with", "as"


class Counts:
    """Counts the records of each key of a topic, and sends each new count to another: keys are texts, values
    longs. One continues the work of another of its ``name`` that ended."""

    def __init__(
        self, services: Services, name: str, folder: Path, topics: tuple[str, str], more: Mapping[str, str]
    ) -> None:
        """``topics``: source and sink; ``more``: settings of Kafka Streams."""
        folder.mkdir(exist_ok=True)
        log4j = folder / "log4j2.properties"
        write_private(log4j, LOG4J)
        pyspark = cache.pyspark(cache.environment().path)
        (py4j,) = (pyspark / "jars").glob("py4j-*.jar")
        self._log = (folder / "streams.log").open("a")
        port, secret, self.process = launch_gateway(
            classpath=f"{ensure_jars('producers')}/*:{py4j}",
            javaopts=["-Xmx256m", "-XX:+UseSerialGC", *QUICK.split(), f"-Dlog4j2.configurationFile={log4j}"],
            java_path=str(java_home() / "bin" / "java"),
            redirect_stdout=self._log,
            redirect_stderr=self._log,
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        # Without memory management: nothing is asked of a JVM that was killed.
        parameters = GatewayParameters(port=port, auth_token=secret, enable_memory_management=False)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        self.name, self._properties = name, self._gateway.jvm.java.util.Properties()
        settings = {
            **java_login(services),
            "application.id": name,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": str(folder / "state"),
            "replication.factor": "1",
            "num.stream.threads": "1",
            "statestore.cache.max.bytes": "0",
            # The least: after it another takes the place of one that was killed.
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            **more,
        }
        self._app = self._started(topics, settings)

    def _started(self, topics: tuple[str, str], settings: Mapping[str, str]) -> Any:
        jvm: Any = self._gateway.jvm
        streams, kstream = jvm.org.apache.kafka.streams, jvm.org.apache.kafka.streams.kstream
        serdes = jvm.org.apache.kafka.common.serialization.Serdes
        text, number = serdes.String(), serdes.Long()
        source, sink = topics
        builder = streams.StreamsBuilder()
        store = streams.state.Stores.inMemoryKeyValueStore("counts")
        counts = getattr(kstream.Materialized, _AS)(store).withKeySerde(text).withValueSerde(number)
        records = builder.stream(source, getattr(kstream.Consumed, _WITH)(text, text))
        grouped = records.groupByKey(getattr(kstream.Grouped, _WITH)(text, text))
        grouped.count(counts).toStream().to(sink, getattr(kstream.Produced, _WITH)(text, number))
        for name, value in settings.items():
            self._properties.setProperty(name, value)
        app = streams.KafkaStreams(builder.build(), self._properties)
        app.start()
        wait_until("Kafka Streams", lambda: str(app.state()) == "RUNNING", START_SECONDS, 0.2)
        return app

    def transactions(self) -> list[str]:
        """The transactional ids of the application's open transactions."""
        admin = self._gateway.jvm.org.apache.kafka.clients.admin.Admin.create(self._properties)
        try:
            listed = list(admin.listTransactions().all().get())
        finally:
            admin.close()
        found = [(str(one.transactionalId()), str(one.state())) for one in listed]
        return [name for name, state in found if name.startswith(f"{self.name}-") and state == "Ongoing"]

    def kill(self) -> None:
        """As a machine that is gone: what it sent is in a transaction that stays open."""
        self.process.kill()
        self.process.wait()
        self._log.close()

    def close(self) -> None:
        self._app.close()
        self.kill()
