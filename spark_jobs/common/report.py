"""The life of a report: wait for the stream's table, take over, count what is new, end well."""

from __future__ import annotations

import logging
import threading
import time

from pyspark.sql import SparkSession

from sluice.model import platform as platforms
from sluice.model import stream as streams
from sluice.model.config import ConfigError
from sluice.model.stream import StreamSpec
from spark_jobs.common import session
from spark_jobs.common.functions import function
from spark_jobs.common.heartbeat import Heartbeat
from spark_jobs.common.iceberg import IcebergTable
from spark_jobs.common.ownership import own
from spark_jobs.common.process import live
from spark_jobs.common.pulse import Pulse
from spark_jobs.common.report_owner import Counting, ReportOwner
from spark_jobs.common.source_table import await_table

log = logging.getLogger(__name__)

# What is counted at once is small: two tasks, and a heap for them.
SMALL = {"spark.master": "local[2]", "spark.driver.memory": "512m"}
PARTITIONS = 2
# After so many looks without news it is looked whether a later owner has taken over.
LOOKS = 6


def run(name: str) -> int:
    """Keep the report of stream ``name`` until told to stop (SIGTERM); returns the exit code.

    0: stopped as asked, after the commit in flight. 76: a later owner has taken over. 1: anything else; the
    last line of stderr says what. Waits for the stream's table where there is none yet.
    """
    return live(f"the report of {name}", lambda stop: _follow(name, stop))


def _follow(name: str, stop: threading.Event) -> None:
    spec = streams.load(name)
    platform = platforms.load("consumer")
    counting = function(spec, "report:counting")()
    pulse = Pulse(Heartbeat(platform.kafka, name, "report", spec.topic.name))
    pulse.start()
    try:
        spark = session.start(f"sluice {name} report", platform, PARTITIONS, SMALL)
        pulse.marks = lambda: session.tasks(spark)
        Following(spark, spec, counting, pulse).until(stop)
    finally:
        pulse.stop()


class Following:
    """The report of ``spec``, kept up with its stream. Raises ConfigError where none is declared."""

    def __init__(self, spark: SparkSession, spec: StreamSpec, counting: Counting, pulse: Pulse) -> None:
        if spec.report is None:
            raise ConfigError(f"stream {spec.name!r} declares no [report]")
        self._spark, self._spec, self._report = spark, spec, spec.report
        self._counting, self._pulse = counting, pulse

    def until(self, stop: threading.Event) -> None:
        """Count until ``stop``. Raises Superseded, and whatever keeps it from counting."""
        seconds = self._report.trigger_seconds
        if await_table(self._spark, self._spec.table, self._pulse.say, seconds, stop):
            source = IcebergTable(self._spark, self._spec.table)
            owner = ReportOwner(self._spark, self._spec, self._report, self._counting)
            own(owner, lambda _: self._count(owner, source, stop))

    def _count(self, owner: ReportOwner, source: IcebergTable, stop: threading.Event) -> None:
        looks = 0
        while not stop.is_set():
            began = time.monotonic()
            news = owner.look(source)
            if news is not None:
                what = "counting all anew" if news.rebuild else f"counting {len(news.batches)} batches"
                self._pulse.say("working", what, owner.state.ends)
                owner.count(news)
                looks = 0
            elif looks >= LOOKS:
                owner.refuse_if_superseded()
                looks = 0
            looks += 1
            self._pulse.say("idle", f"counted up to snapshot {owner.state.source}", owner.state.ends)
            stop.wait(max(self._report.trigger_seconds - (time.monotonic() - began), 0))
