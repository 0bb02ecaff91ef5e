"""The ledger's documents of a run, read-only: a list of them, one as a page, one as JSON."""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse

from sluice.core.json_record import Document
from sluice.ledger import run_documents
from sluice.web import navigation
from sluice.web.data.sources import Sources, sources
from sluice.web.rights import may_read_stream
from sluice.web.templating import TEMPLATES

if TYPE_CHECKING:
    from sluice.ledger.documents import Ledger

# A plan has a line per source; the page shows the beginning, JSON has all.
SHOWN_CHARACTERS = 2_000
# A backfill's run that is reprocessed each day has some documents more each time.
SHOWN_DOCUMENTS = 500
_NAME = re.compile(r"[a-z0-9-]+")

router = APIRouter()


def ledger_of(
    stream: Annotated[str, Depends(may_read_stream)], data: Annotated[Sources, Depends(sources)]
) -> Ledger:
    """The ledger of a stream that the user may read. Raises ConfigError for an invalid platform file."""
    return data.ledger(stream)


# Not by its type: FastAPI would have to resolve it, and the API server to import boto3 at its start.
Readable = Annotated[Any, Depends(ledger_of)]


# JSON first: its address is also one of a document whose name ends in ".json", and there is none.
@router.get("/streams/{stream}/runs/{run_id}/{document}.json")
def as_json(run_id: str, document: str, ledger: Readable) -> JSONResponse:
    found = _find(ledger, run_id, document)
    if found is None:
        raise HTTPException(404, _missing(run_id, document))
    return JSONResponse(found[1])


@router.get("/streams/{stream}/runs/{run_id}/{document}", response_class=HTMLResponse)
def as_page(request: Request, run_id: str, document: str, ledger: Readable) -> HTMLResponse:
    found = _find(ledger, run_id, document)
    about: dict[str, Any] = {"document": document, "missing": _missing(run_id, document)}
    if found is not None:
        key, content = found
        name = Path(key).stem
        about = {"document": name, "uri": ledger.uri(key), "rows": rows(content), "json": f"{name}.json"}
    return _page(request, ledger, run_id, about, "document.html", 404 if found is None else 200)


@router.get("/streams/{stream}/runs/{run_id}", response_class=HTMLResponse)
def as_list(request: Request, run_id: str, ledger: Readable) -> HTMLResponse:
    found = list(islice(run_documents.names(ledger, run_id), SHOWN_DOCUMENTS + 1))
    links = [
        (load, name, _relative(navigation.ledger_page(ledger.stream, load, name))) for load, name in found
    ]
    about = {"links": links[:SHOWN_DOCUMENTS], "more": len(links) > SHOWN_DOCUMENTS}
    return _page(request, ledger, run_id, about, "documents.html", 200 if links else 404)


def rows(document: Document) -> list[tuple[str, str, bool]]:
    """Name and text of each value, and whether the text is shortened; values of few words first."""
    texts = [(name, value if isinstance(value, str) else _text(value)) for name, value in document.items()]
    texts.sort(key=lambda one: ("\n" in one[1], one[0]))
    return [(name, text[:SHOWN_CHARACTERS], len(text) > SHOWN_CHARACTERS) for name, text in texts]


def _text(value: object) -> str:
    # Not json.dumps() of all: a plan of 100,000 sources would be laid out to show its first lines.
    if isinstance(value, list):
        value = value[:SHOWN_CHARACTERS]
    elif isinstance(value, dict):
        value = dict(islice(value.items(), SHOWN_CHARACTERS))
    indent = 1 if isinstance(value, dict | list) and value else None
    return json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=False)


def _find(ledger: Ledger, run_id: str, document: str) -> tuple[str, Document] | None:
    # Names have no slash and no dot, so no key is reached but one of this run's.
    return run_documents.find(ledger, run_id, document) if _NAME.fullmatch(document) else None


def _missing(run_id: str, document: str) -> str:
    return (
        f"run {run_id!r} has no document {document!r}: the task that writes it has not ended, failed, "
        "or is not part of this run"
    )


def _relative(page: str) -> str:
    """The address from a list's page, which is three levels below the app."""
    return page.replace(navigation.PREFIX.removeprefix("/"), "../../..", 1)


def _page(
    request: Request, ledger: Ledger, run_id: str, about: dict[str, Any], template: str, status: int
) -> HTMLResponse:
    given = {"stream": ledger.stream, "run_id": run_id, **about}
    return TEMPLATES.TemplateResponse(request, template, given, status_code=status)
