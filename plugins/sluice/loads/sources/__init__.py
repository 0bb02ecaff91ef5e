"""The kinds of source that a load may have, a class in a file each.

A source is read from its document (:func:`read`): of a plan, or as it was planned first. The document stays
as it is, with what planning added to it. What differs between the kinds is a method of ``base.Source``.

To add a kind, write its class here and name it in ``KINDS``, then give ``config.stream.SourceType`` a
member. mypy (``assert_never``) and the DAGs' tests (dicts over all kinds) then name what must decide about
it: its form in ``airflow/forms``; the operator and timeout of its task ``produce`` in
``airflow/dags/streams``; its text in ``airflow/dags/docs``; its job in ``spark_jobs/__main__``. By hand:
how ``StreamSpec.source`` tells it; its section of ``stream.toml`` in ``config/sections``, with the checks
in ``config/stream_checks``; what a record of no source is called (``trace/find``); whether its producer
ends by itself (``clients/kubernetes/pods``); ``cli/new_stream``.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluice.core.json_record import Document
from sluice.loads.sources.base import Dataset, Source
from sluice.loads.sources.csv_object import ObjectSource
from sluice.loads.sources.feed import FeedSource
from sluice.loads.sources.generator import GeneratorSource
from sluice.loads.sources.topic import TopicSource

KINDS: tuple[type[Source], ...] = (ObjectSource, GeneratorSource, FeedSource, TopicSource)
_BY_KIND = {kind.KIND: kind for kind in KINDS}


def read(document: Document) -> Source:
    """The source of a document. Raises KeyError for a kind that is unknown."""
    return _BY_KIND[document.get("kind")](document)


def read_all(documents: Iterable[Document]) -> list[Source]:
    return [read(document) for document in documents]


def datasets(sources: Iterable[Source]) -> list[Dataset]:
    """What the sources were read from, in OpenLineage's names: their number does not grow with that of the
    objects."""
    found = list(sources)
    return [
        dataset for kind in KINDS for dataset in kind.datasets([one for one in found if type(one) is kind])
    ]
