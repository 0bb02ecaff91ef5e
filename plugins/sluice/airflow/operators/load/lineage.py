"""A verified load as OpenLineage's datasets and facets: from sources and topic to the table.

Airflow's OpenLineage provider asks for it, and is off until a user configures a transport.
Sizes do not grow with a load's objects or batches: of objects their number and common prefix, of offsets the
bounds and the count of each partition.
"""

from __future__ import annotations

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

from sluice.core.messages import MAX_CHARACTERS, MAX_PROBLEMS
from sluice.loads.sources import datasets

if TYPE_CHECKING:
    from sluice.config.platform import Platform
    from sluice.config.stream import StreamSpec
    from sluice.core.offsets.ranges import OffsetRanges
    from sluice.loads.sources.base import Dataset
    from sluice.loads.verification.proof import VerifiedLoad


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
    result, read = load.result, [source for source, _ in load.result.sources]
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
        inputs=[
            *map(_source, datasets(read)),
            _topic(load.expected.minus(result.without.explained), platform, spec),
        ],
        outputs=[_table(load, platform, spec)],
        run_facets={"sluice_verification": facet},
    )


def _source(dataset: Dataset) -> InputDataset:
    if dataset.files is None:
        return InputDataset(namespace=dataset.namespace, name=dataset.name)
    statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
        size=dataset.size, fileCount=dataset.files
    )
    return InputDataset(
        namespace=dataset.namespace, name=dataset.name, inputFacets={"inputStatistics": statistics}
    )


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
    facets: dict[str, DatasetFacet] = {
        "symlinks": symlinks_dataset.SymlinksDatasetFacet(
            [symlinks_dataset.Identifier(namespace=lake.catalog.address, name=spec.table, type="TABLE")]
        ),
        "catalog": catalog_dataset.CatalogDatasetFacet(
            framework="iceberg",
            type=lake.catalog.spark()["type"],
            name="lake",
            metadataUri=lake.catalog.address,
            warehouseUri=lake.warehouse,
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
