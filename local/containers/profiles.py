"""The profiles of docker-compose.yaml. Standard library only, as all that `make compose-env` needs."""

from __future__ import annotations

from local.base import UsageError

# Each choice of COMPOSE_PROFILES; the first is the default.
PROFILES = (("single-broker", "cluster"), ("single-drive", "erasure"))
SPARK = "spark"
# A schema registry.
REGISTRY = "registry"
# Iceberg's REST catalog, through which all roles find tables then.
REST_CATALOG = "rest-catalog"
# These may come and go.
OPTIONAL = frozenset({SPARK, REGISTRY, REST_CATALOG})


def parse(text: str) -> frozenset[str]:
    """The profiles of COMPOSE_PROFILES. Raises UsageError for an unknown one, and unless one of each choice
    is given."""
    given = frozenset(filter(None, (part.strip() for part in text.split(","))))
    known = {name for choice in PROFILES for name in choice} | OPTIONAL
    if given - known:
        raise UsageError(
            f"COMPOSE_PROFILES has {', '.join(sorted(given - known))}. Fix: use {', '.join(sorted(known))}"
        )
    for choice in PROFILES:
        if len(given & set(choice)) != 1:
            raise UsageError(f"COMPOSE_PROFILES is {text!r}. Fix: give either {' or '.join(choice)}")
    return given
