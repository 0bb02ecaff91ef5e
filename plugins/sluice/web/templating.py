"""The HTML templates of all pages. They escape every value; a filter of any page is one of all."""

from __future__ import annotations

from pathlib import Path

from fastapi.templating import Jinja2Templates

from sluice.core.messages import age
from sluice.web import formats

TEMPLATES = Jinja2Templates(Path(__file__).parent / "templates")
TEMPLATES.env.filters |= {
    "count": formats.count, "rate": formats.rate, "age": age, "public": formats.public,
    "short": formats.short,
}  # fmt: skip
