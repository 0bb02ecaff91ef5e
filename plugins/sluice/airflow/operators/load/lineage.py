"""A verified load as OpenLineage's datasets and facets: from sources and topic to the table.

Airflow's OpenLineage provider asks for it, and is off until a user configures a transport.
Sizes do not grow with a load's objects or batches: of objects their number and common prefix, of offsets the
bounds and the count of each partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from os.path import commonprefix
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    RunFacet,
    catalog_dataset,
    dataset_version_dataset,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
    symlinks_dataset,
)

from sluice.loads import plan as plans

if TYPE_CHECKING:
    from sluice.airflow.operators.load.validate import VerifiedLoad
    from sluice.config.platform import Platform
    from sluice.config.stream import StreamSpec
    from sluice.core.json_record import Document
    from sluice.core.offsets.ranges import OffsetRanges

# The rest is in the task's log.
MAX_PROBLEMS = 3
MAX_CHARACTERS = 500


@attrs.define
class PartitionOffsets:
    """``end``: exclusive; ``records``: fewer than between both, if other producers sent records meanwhile."""

    partition: int
    start: int
    end: int
    records: int


@attrs.define
class OffsetRangesDatasetFacet(DatasetFacet):
    """``sluice_offsetRanges`` of a topic: which offsets the load has."""

    partitions: list[PartitionOffsets]


@attrs.define
class VerificationRunFacet(RunFacet):
    """``sluice_verification``: the proof, shortened. ``status``: passed or failed, ``proof``: its address."""

    status: str
    records: int
    rows: int
    published: int
    quarantined: int
    gaps: int
    duplicates: int
    proof: str
    problems: list[str]


def of_load(
    load: VerifiedLoad, platform: Platform, spec: StreamSpec
) -> OperatorLineage[Any, RunFacet | JobFacet]:
    result = load.result
    facet = VerificationRunFacet(
        status="failed" if load.problems else "passed",
        records=result.offsets.expected,
        rows=result.source_rows,
        published=result.published,
        quarantined=result.quarantined,
        gaps=result.offsets.gaps.count,
        duplicates=result.offsets.duplicates.count,
        proof=load.proof,
        problems=[problem[:MAX_CHARACTERS] for problem in load.problems[:MAX_PROBLEMS]],
    )
    return OperatorLineage(
        inputs=[*_sources([source for source, _ in result.sources]), _topic(load.expected, platform, spec)],
        outputs=[_table(load, platform, spec)],
        run_facets={"sluice_verification": facet},
    )


def _sources(sources: Sequence[Document]) -> list[InputDataset]:
    """One dataset per bucket, named after what its keys have in common, and one per feed. A generator's rows
    have no dataset that they come from."""
    found = []
    keys: dict[str, list[Document]] = defaultdict(list)
    for source in sources:
        if plans.is_feed(source):
            address = urlsplit(source["feed"])
            # Without a user and a password, which an address may have.
            host = address.netloc.rpartition("@")[2]
            found.append(InputDataset(namespace=f"{address.scheme}://{host}", name=address.path or "/"))
        elif not plans.is_generated(source):
            keys[source["bucket"]].append(source)
    for bucket, objects in keys.items():
        statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
            size=sum(source["size"] for source in objects), fileCount=len(objects)
        )
        found.append(
            InputDataset(
                namespace=f"s3://{bucket}",
                name=_prefix([source["key"] for source in objects]),
                inputFacets={"inputStatistics": statistics},
            )
        )
    return found


def _prefix(keys: Sequence[str]) -> str:
    """The key of one object; of several the folder that they share."""
    if len(keys) == 1:
        return keys[0]
    # Up to the last slash of what they have in common.
    return commonprefix(keys).rpartition("/")[0] or "/"  # noqa: RUF071


def _topic(expected: OffsetRanges, platform: Platform, spec: StreamSpec) -> InputDataset:
    partitions = [
        PartitionOffsets(partition, offsets.pairs()[0][0], offsets.pairs()[-1][1], offsets.count)
        for partition, offsets in sorted(expected.partitions.items())
        if offsets
    ]
    statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=expected.count)
    return InputDataset(
        # By OpenLineage's naming the first of the servers.
        namespace=f"kafka://{platform.kafka.bootstrap_servers.split(',')[0].strip()}",
        name=spec.topic.name,
        facets={"sluice_offsetRanges": OffsetRangesDatasetFacet(partitions)},
        inputFacets={"inputStatistics": statistics},
    )


def _table(load: VerifiedLoad, platform: Platform, spec: StreamSpec) -> OutputDataset:
    """Named by its place, as OpenLineage names Iceberg tables; its name in the catalog is a symlink."""
    location = urlsplit(load.location)
    lake = platform.lake
    catalog = f"postgresql://{lake.catalog_host}:{lake.catalog_port}/{lake.catalog_database}"
    facets: dict[str, DatasetFacet] = {
        "symlinks": symlinks_dataset.SymlinksDatasetFacet(
            [symlinks_dataset.Identifier(namespace=catalog, name=spec.table, type="TABLE")]
        ),
        "catalog": catalog_dataset.CatalogDatasetFacet(
            framework="iceberg", type="jdbc", name="lake", metadataUri=catalog, warehouseUri=lake.warehouse
        ),
    }
    if load.snapshot_id is not None:
        version = dataset_version_dataset.DatasetVersionDatasetFacet(str(load.snapshot_id))
        facets["version"] = version
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=load.result.published
    )
    return OutputDataset(
        namespace=f"{location.scheme}://{location.netloc}",
        name=location.path.lstrip("/") if location.netloc else location.path,
        facets=facets,
        outputFacets={"outputStatistics": statistics},
    )
