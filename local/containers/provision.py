"""`configure` and `provision`: what runs once at each `docker compose up`, before the services and after."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from local.base import UnhealthyService
from local.containers import layout
from local.containers.layout import Volume
from local.containers.stack import ContainerStack
from local.progress import ProgressDisplay
from local.runtime.context import Context
from local.runtime.home import StackDir, write_files
from local.services import airflow, kafka, minio, postgres, streams
from local.stack import health
from sluice.io.retry import wait_for
from sluice.model.spec import stream
from sluice.model.spec.platform import ROLES

# Until a service answers: compose has waited for its health check before.
SECONDS = 60.0


def configure(stack: ContainerStack, root: Path = layout.VOLUMES) -> int:
    """Write each service's files into its volume; no service gets another's secrets.

    Raises UsageError for an invalid setting, or a volume that is not mounted.
    """
    for volume in layout.volumes(stack.context, stack.profiles):
        write(volume, root / volume.name)
    return 0


def write(volume: Volume, folder: Path) -> None:
    """Write its files below `folder`, which is the stack directory of its container."""
    home = StackDir(folder)
    home.prepare()
    write_files({folder / path.relative_to(layout.HOME.root): text for path, text in volume.files.items()})
    scripts = {folder / "start" / name: text for name, text in volume.scripts.items()}
    write_files(scripts)
    for script in scripts:
        script.chmod(0o700)
    (home.tmp / "spark").mkdir(exist_ok=True)


def provision(stack: ContainerStack) -> int:
    """Create users, rights, buckets and databases, and migrate Airflow's; idempotent.

    Raises UsageError if a service does not answer within SECONDS.
    """
    stack.up()
    context = stack.context
    topics, results = [spec.topic.name for spec in stream.load_all()], streams.result_topics()
    users = {role: (f"sluice-{role}", stack.secrets[f"minio_{role}"]) for role in ROLES}
    with ProgressDisplay() as board:

        def databases() -> None:
            _provision("postgres", context, board, lambda: postgres.provision(context))
            with board.step("Airflow's database") as step:
                airflow.migrate(context, step)

        jobs: list[Callable[[], None]] = [
            databases,
            partial(_provision, "kafka", context, board, lambda: kafka.provision(context, topics, results)),
            partial(_provision, "minio", context, board, lambda: minio.provision(context, users)),
        ]
        with ThreadPoolExecutor(len(jobs)) as pool:
            for future in [pool.submit(job) for job in jobs]:
                future.result()
    return 0


def _provision(name: str, context: Context, board: ProgressDisplay, then: Callable[[], None]) -> None:
    reasons: list[str] = []

    def answers() -> bool:
        try:
            step.line(health.probe(name, context))
        except health.UNREACHABLE as error:
            reasons.append(" ".join(str(error).split()))
            return False
        return True

    with board.step(name) as step:
        if not wait_for(answers, SECONDS, 0.5):
            raise UnhealthyService(
                f"{name} at {context.network.address(name)} did not answer within {SECONDS:.0f} s "
                f"({reasons[-1]}). Fix: docker compose logs {name}; after a change of SLUICE_SECRETS, its "
                "volume still has the old passwords"
            )
        step.line("users and rights")
        then()
