"""`make compose-env`: the `.env` of docker-compose.yaml, with generated passwords."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from local.base import REPO, UsageError
from local.containers import profiles
from local.runtime.secrets import complete_secrets
from sluice.config.reading.files import write_private

FILE = REPO / ".env"
SECRETS_LINE = re.compile(r"^SLUICE_SECRETS='(.*)'$", re.M)
_TEXT = """\
# Written by `make compose-env`; docs/docker.md explains each value. Not for git.
# {choices}; {spark} for a Spark cluster; {registry} for a schema registry;
# {rest_catalog} for Iceberg's REST catalog.
COMPOSE_PROFILES={chosen}
# Where the browser finds Airflow; its user is `operator`, and its password SLUICE_SECRETS' airflow_operator.
SLUICE_UI_ADDRESS=127.0.0.1
SLUICE_UI_PORT=8080
SLUICE_URL=http://127.0.0.1:8080
# Where Prometheus finds the last checks of streams.
SLUICE_CHECKS_ADDRESS=127.0.0.1
SLUICE_CHECKS_PORT=8082
# Keep a copy of it: without it the data cannot be opened. Other values: docs/docker.md, Change passwords.
SLUICE_SECRETS='{secrets}'
"""


def main(arguments: Sequence[str], file: Path = FILE) -> int:
    """Write it, mode 600, with the profiles of `arguments`; of one that exists, add missing secrets only.

    Raises UsageError for unknown profiles, and for an `.env` that was not made here.
    """
    if file.exists():
        return _complete(file, arguments)
    chosen = _profiles(arguments)
    text = _TEXT.format(
        choices=", ".join(" or ".join(choice) for choice in profiles.PROFILES),
        spark=profiles.SPARK,
        registry=profiles.REGISTRY,
        rest_catalog=profiles.REST_CATALOG,
        chosen=",".join(chosen),
        secrets=json.dumps(complete_secrets({})),
    )
    write_private(file, text)
    print(f"{file.name} is written, with generated passwords. Next: docker compose up --build --wait")
    return 0


def _profiles(arguments: Sequence[str]) -> list[str]:
    given = set(arguments)
    for choice in profiles.PROFILES:
        if not given & set(choice):
            given.add(choice[0])
    return sorted(profiles.parse(",".join(given)))


def _complete(file: Path, arguments: Sequence[str]) -> int:
    if arguments:
        raise UsageError(
            f"{file.name} exists, with its profiles and passwords. Fix: make compose-env, without profiles; "
            "before the first `docker compose up` COMPOSE_PROFILES in it may be changed"
        )
    text = file.read_text()
    found = SECRETS_LINE.search(text)
    if found is None:
        raise UsageError(f"{file.name} has no line SLUICE_SECRETS='…'. Fix: move it away")
    try:
        given = dict(json.loads(found[1]).items())
    except (ValueError, AttributeError) as error:
        raise UsageError(
            f"SLUICE_SECRETS in {file.name} is not a JSON object ({error}). Fix: correct it"
        ) from error
    complete = complete_secrets(given)
    added = sorted(complete.keys() - given.keys())
    write_private(file, text[: found.start(1)] + json.dumps(complete) + text[found.end(1) :])
    print(f"{file.name} is complete" + (f"; added {', '.join(added)}" if added else ""))
    return 0
