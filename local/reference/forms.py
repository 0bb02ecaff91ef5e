"""docs/dags.md: the forms (params) of a stream's DAGs."""

from __future__ import annotations

import os
from collections.abc import Mapping

from airflow.sdk import Param

from local.base import EXAMPLES as FOLDER
from local.reference.blocks import table
from sluice.airflow import forms
from sluice.config import streams as stream_files
from sluice.config.folders import VARIABLE
from sluice.config.stream import COMPONENTS, StreamSpec

HEAD, OF_STREAMS = ("param", "default", "meaning"), ("param", "default", "streams", "meaning")
# Kind of source -> a stream of this repository that has it.
EXAMPLES = {"CSV": "nyc_taxi", "feed": "wiki_changes", "generated": "isp_hits", "topic": "orders"}


def blocks() -> Mapping[str, str]:
    hits, dated = (_example(EXAMPLES[kind]) for kind in ("generated", "feed"))
    return {
        "form of a load": table(OF_STREAMS, _of_load()),
        "form of generated hits": table(HEAD, _rows(forms.load(hits))),
        "form of supervision": table(HEAD, _rows(forms.supervision(COMPONENTS))),
        "form of maintenance": table(OF_STREAMS, _rows(forms.maintenance(dated), "by date")),
        "form of a change": table(HEAD, _rows(forms.change())),
        "form of reconciliation": table(HEAD, _rows(forms.reconciliation())),
    }


def _example(name: str) -> StreamSpec:
    return stream_files.load(name, {**os.environ, VARIABLE: str(FOLDER)})


def _of_load() -> list[list[str]]:
    rows = []
    for kind, name in EXAMPLES.items():
        spec = _example(name)
        elsewhere = {*forms.limits(), *(spec.generator.schemas if spec.generator else ())}
        own = {key: param for key, param in forms.load(spec).items() if key not in elsewhere}
        rows += [[cell.replace(name, "<stream>") for cell in row] for row in _rows(own, kind)]
    return rows + _rows(forms.limits(), "all")


def _rows(form: Mapping[str, Param], *streams: str) -> list[list[str]]:
    return [[f"`{name}`", _default(param), *streams, _meaning(param)] for name, param in form.items()]


def _default(param: Param) -> str:
    return "empty" if param.value in ([], None) else f"`{param.value}`"


def _meaning(param: Param) -> str:
    least, most = (param.schema.get(bound) for bound in ("minimum", "maximum"))
    bounds = f" ({least} to {most})" if least is not None and most is not None else ""
    # A stream's name is one of code.
    return f"{param.description}{bounds}".replace("nyc_taxi/", "`nyc_taxi/`")
