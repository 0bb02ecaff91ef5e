"""The schema of a load's records in a registry: registered before anything is sent with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.config.csv_reading import avro_text

if TYPE_CHECKING:
    from sluice.config.stream import StreamSpec
    from sluice.systems import Systems


def register(systems: Systems, spec: StreamSpec) -> str | None:
    """Register the schema of a stream that declares it; what is there now, for a log, None without one.

    Raises IncompatibleVersion, RefusedSchema, RegistryRefused or RegistryUnreachable; ConfigError without a
    registry in the platform file.
    """
    # With NumPy and Arrow, which a DAG does not need.
    from sluice.core.registry.subjects import Naming, subject

    if not spec.topic.registry:
        return None
    name = subject(Naming.TOPIC, spec.topic.name)
    schema_id = systems.registry.register(name, avro_text(spec, spec.schema_file))
    return f"schema registered subject={name} id={schema_id}"
