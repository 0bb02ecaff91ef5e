"""`configure` and `provision`: what runs once at each `docker compose up`, before the services and after."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from minio.error import MinioAdminException

from local.base import UnhealthyService, UsageError, one_line
from local.containers import layout
from local.containers.layout import Volume
from local.containers.profiles import OPTIONAL, SPARK
from local.containers.stack import ContainerStack
from local.progress import ProgressDisplay
from local.runtime.home import StackDir, write_files
from local.services import airflow
from local.stack import health
from sluice.clients.polling import wait_for
from sluice.config.reading.files import write_private

# Until a service answers: compose has waited for its health check before.
SECONDS = 60.0
# In each volume: whose data it has.
MARKER = "configured.json"
# Volumes whose services are not started again by a new version or setting (no dependency of theirs is).
STORES = ("postgres", "kafka", "minio", SPARK)


def configure(stack: ContainerStack, root: Path = layout.VOLUMES) -> int:
    """Write each service's files into its volume; no service gets another's secrets.

    Raises UsageError for an invalid setting, and if a volume is another platform's or of another layout: then
    nothing is written.
    """
    made = layout.volumes(stack.context, stack.profiles)
    platform = hashlib.sha256(stack.secrets["install"].encode()).hexdigest()[:16]
    chosen = ",".join(sorted(stack.profiles - OPTIONAL))
    for volume in made:
        _check_marker(root / volume.name, platform, chosen)
    for volume in made:
        folder = root / volume.name
        is_new = not (folder / MARKER).exists()
        if write(volume, folder) and not is_new and volume.name.startswith(STORES):
            name = volume.name
            print(f"sluice: the configuration of {name} changed. Fix: docker compose restart {name}")
        write_private(folder / MARKER, json.dumps({"platform": platform, "profiles": chosen}) + "\n")
    return 0


def _check_marker(folder: Path, platform: str, chosen: str) -> None:
    file = folder / MARKER
    if not file.exists():
        return
    found = json.loads(file.read_text())
    if found["platform"] != platform:
        raise UsageError(
            f"volume {folder.name} has the data of a platform with other secrets than .env's; nothing was "
            "changed. Fix: restore that .env; or, for a second platform, set COMPOSE_PROJECT_NAME in .env"
        )
    if found["profiles"] != chosen:
        raise UsageError(
            f"volume {folder.name} was made with the profiles {found['profiles']}, and COMPOSE_PROFILES has "
            f"{chosen}; nothing was changed. Fix: set them back; data keep their layout (docs/docker.md)"
        )


def write(volume: Volume, folder: Path) -> bool:
    """Write its files below `folder`, the stack directory of its container; whether one changed."""
    home = StackDir(folder)
    home.prepare()
    scripts = {folder / "start" / name: text for name, text in volume.scripts.items()}
    before = {script: script.read_text() for script in scripts if script.exists()}
    changed = write_files(
        {folder / path.relative_to(layout.HOME.root): text for path, text in volume.files.items()}
    )
    write_files(scripts)
    for script in scripts:
        script.chmod(0o700)
    (home.tmp / "spark").mkdir(exist_ok=True)
    return changed or before != scripts


def provision(stack: ContainerStack) -> int:
    """Create users, rights, buckets and databases, and migrate Airflow's; idempotent.

    Raises UsageError if a service does not answer within SECONDS, or refuses.
    """
    stack.up()
    provisioning = stack.provisioning()
    with ProgressDisplay() as board:

        def databases() -> None:
            _provision("postgres", stack, board, provisioning["postgres"])
            with board.step("Airflow's database") as step:
                airflow.prepare(stack.context, step)

        jobs: list[Callable[[], None]] = [databases]
        jobs += [
            partial(_provision, name, stack, board, then)
            for name, then in provisioning.items()
            if name != "postgres"
        ]
        with ThreadPoolExecutor(len(jobs)) as pool:
            for future in [pool.submit(job) for job in jobs]:
                future.result()
    return 0


def _provision(name: str, stack: ContainerStack, board: ProgressDisplay, then: Callable[[], None]) -> None:
    reasons: list[str] = []

    def answers() -> bool:
        try:
            step.line(health.probe(name, stack.context))
        except health.UNREACHABLE as error:
            reasons.append(one_line(error))
            return False
        return True

    fix = f"Fix: {stack.advice(stack.services(name))}"
    with board.step(name) as step:
        if not wait_for(answers, SECONDS, 0.5):
            raise UnhealthyService(f"{name} did not answer within {SECONDS:.0f} s ({reasons[-1]}). {fix}")
        step.line("users and rights")
        try:
            then()
        except (*health.UNREACHABLE_ERRORS, MinioAdminException) as error:
            raise UnhealthyService(
                f"{name} refuses its users and rights ({one_line(error)}). {fix}; after a change of "
                "SLUICE_SECRETS: docs/docker.md, Change passwords"
            ) from error
