"""Commands for work on Sluice itself: set-up, checks, measurements, images and manifests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from local import checks
from local.base import REPO
from local.kubernetes.passwords import NAMESPACE
from sluice.cli.app import PASSED_ON

Namespace = Annotated[str, typer.Option(help="Namespace of the resources")]

PANEL = "Work on Sluice"
# Name → what it does; the arguments of each go to every pytest.
CHECKS = {
    "check": "Lint, types, import contracts, unit and DAG tests; arguments go to pytest: check -k word.",
    "test": "`check`, then the tests on real services; arguments as above.",
    "test-all": "`test` with every drill, the exhaustive tests, Kubernetes and containers.",
    "lint": "The checks of `check` without the tests.",
    "k8s-check": "The manifests and the code for Kubernetes, against a real API server.",
    "k8s-test": "A cluster of one node on this machine, and what runs on it; as root.",
    "compose-test": "Build the images, run the stack in Docker, break it, and check the load.",
}


def add(app: typer.Typer) -> None:
    """Add them."""
    app.command(rich_help_panel=PANEL)(setup)
    app.command(rich_help_panel=PANEL)(lock)
    for name, text in CHECKS.items():
        app.command(name, help=text, context_settings=PASSED_ON, rich_help_panel=PANEL)(_checks(name))
    app.command(context_settings=PASSED_ON, rich_help_panel=PANEL)(bench)
    app.command(context_settings=PASSED_ON, rich_help_panel=PANEL)(python)
    app.command("compose-env", rich_help_panel=PANEL)(compose_env)
    render = typer.Typer(help="Print resources of a cluster, for kubectl.", rich_markup_mode="rich")
    render.command("users")(kafka_users)
    render.command("passwords")(passwords)
    app.add_typer(render, name="k8s-render", rich_help_panel=PANEL)


def setup(
    artifacts: Annotated[
        list[str] | None, typer.Argument(help="python, minio, registry, rest-catalog; default: python, minio")
    ] = None,
) -> None:
    """Fetch and build what is missing or damaged, into the cache."""
    _before_setup("setup", *(artifacts or []))


def lock() -> None:
    """Recompile the pinned requirements and the jars' hashes."""
    _before_setup("lock")


def _before_setup(*arguments: str) -> None:
    # `local/run` runs these itself; this is for a command line that was started otherwise.
    raise typer.Exit(subprocess.run([REPO / "local" / "run", *arguments]).returncode)


def _checks(name: str) -> Callable[[typer.Context], None]:
    def command(context: typer.Context) -> None:
        raise typer.Exit(checks.main(name, context.args))

    return command


def bench(context: typer.Context) -> None:
    """Measure Sluice and other ways, in turns: bench --scale 0.1 --workload one_batch."""
    raise typer.Exit(_python("-m", "bench.compare", *context.args))


def python(context: typer.Context) -> None:
    """The environment's Python with the code on its path: python -m bench.recovery."""
    raise typer.Exit(_python(*context.args))


def _python(*arguments: str) -> int:
    return subprocess.run([sys.executable, *arguments]).returncode


def compose_env(
    profiles: Annotated[
        list[str] | None, typer.Argument(help="As cluster erasure spark registry rest-catalog")
    ] = None,
) -> None:
    """Write .env for docker compose, with generated passwords."""
    from local.containers import env_file

    raise typer.Exit(env_file.main(profiles or []))


def kafka_users(
    namespace: Namespace = NAMESPACE,
    cluster: Annotated[str, typer.Option(help="Name of the Kafka resource")] = "kafka",
) -> None:
    """Kafka's users of the declared streams."""
    from local.kubernetes import command

    command.print_users(namespace, cluster)


def passwords(namespace: Namespace = NAMESPACE) -> None:
    """The Secret with new passwords, for `kubectl create`."""
    from local.kubernetes import passwords as command

    raise typer.Exit(command.main(["--namespace", namespace]))
