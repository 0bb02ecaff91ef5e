"""The verbs of the command line and what each does: shown by `make help` and by a wrong verb."""

from __future__ import annotations

VERBS = {
    "help": "this list",
    "setup": "fetch and build everything that is missing or damaged, into the cache",
    "up": "start the stack (PostgreSQL, Kafka, MinIO, Airflow) and wait until it is healthy",
    "down": "stop the stack; no process stays behind, the data stays",
    "status": "services and streams: state, verdict, lag, last event, supervision; JSON=1 for programs",
    "logs": "follow the logs of all services, or of one: make logs SERVICE=kafka",
    "demo": "the taxi load end to end, with the proof; or STREAM=wiki_changes, STREAM=isp_hits",
    "drill": "break a stack of its own on purpose, in 12 ways, and prove what is left: build/drills.json",
    "sql": 'ask the lake: make sql Q="select count(*) from nyc_taxi"',
    "check": 'lint, types, import contract, unit and DAG tests: under 90 s; ARGS="-k word" reaches pytest',
    "test": "`make check`, then the tests on real services: under 30 minutes; ARGS as above",
    "test-all": "`make test` with every drill and what is too slow for every change",
    "lint": "the checks of `make check` without the tests",
    "wipe": "stop the stack and remove its data (asks; YES=1 does not)",
    "lock": "recompile the pinned requirements and the jars' hashes",
}


def usage() -> str:
    """One line per verb."""
    return "\n".join(f"  make {verb:<9}{text}" for verb, text in VERBS.items())
