"""Every finding of reconciliation is explained."""

from __future__ import annotations

import re

from sluice.core.findings import FindingName
from tests.unit.docs.test_docs import REPO


def test_every_finding_has_one_row() -> None:
    text = (REPO / "docs" / "operating.md").read_text()
    section = text.split("### Reconciliation findings", 1)[1].split("\n### ", 1)[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.M) == [name.value for name in FindingName]
