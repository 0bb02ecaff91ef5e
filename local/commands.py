"""The list of commands (standard library only; not in local.base, on which every image builds)."""

from __future__ import annotations

COMMANDS = {
    "help": "this list",
    "setup": "fetch and build what is missing or damaged, into the cache",
    "up": "start the stack (PostgreSQL, Kafka, MinIO, Airflow) and wait until it is healthy",
    "down": "stop the stack; no process stays behind, the data stays",
    "status": "services and streams: state, health, lag, last event, supervision; JSON=1 for programs",
    "logs": "follow the logs of all services, or of one: make logs SERVICE=kafka",
    "demo": "the taxi load end to end, with the proof; or STREAM=wiki_changes, STREAM=isp_hits",
    "drill": "inject faults into a stack of its own and verify the data: build/drills.json",
    "sql": 'query the lake: make sql Q="select count(*) from nyc_taxi"',
    "put": "upload a file to the source bucket: make put FILE=rides.csv KEY=rides/rides.csv",
    "airflow": 'Airflow\'s commands on the stack: make airflow ARGS="dags list"',
    "batches": 'what each batch read and published: make batches ARGS="nyc_taxi --limit 20"',
    "trace": 'where a row came from: make trace ARGS="nyc_taxi --partition 3 --offset 120"',
    "check": 'lint, types, import contract, unit and DAG tests; ARGS="-k word" goes to pytest',
    "test": "`make check`, then the tests on real services; ARGS as above",
    "test-all": "`make test` with every drill and the exhaustive tests",
    "lint": "the checks of `make check` without the tests",
    "k8s-check": "the manifests and the code for Kubernetes, against a real API server",
    "k8s-test": "a cluster of one node on this machine, and what runs on it; as root",
    "k8s-render": 'print a cluster\'s resources of the declared streams: ARGS="users"',
    "compose-env": 'write .env for docker compose, with generated passwords: ARGS="cluster erasure spark"',
    "compose-test": "build the images, run the stack in Docker, break it, and check the load",
    "bench": "measure Sluice and other ways, in turns: SCALE=0.1 WORKLOAD=one_batch for a look",
    "python": 'the environment\'s Python with the code on its path: ARGS="-m bench.compare.sizing --help"',
    "destroy": "stop the stack and remove its data (asks; YES=1 does not)",
    "lock": "recompile the pinned requirements and the jars' hashes",
}


def usage() -> str:
    """One line per command."""
    return "\n".join(f"  make {command:<14}{text}" for command, text in COMMANDS.items())
