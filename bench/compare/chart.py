"""The chart of a comparison: a bar for each ratio, with its goal."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

from bench.compare.figures import GOALS, is_reached

WIDTH = 110
# A bar ends here: what is 3 times the other's is as bad as what is 30 times.
LONGEST = 3.0
# Without the fonts that rich would load from the web.
_FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.S)


def chart(ratio: Mapping[str, float]) -> Table:
    """One line per ratio: green if its goal is reached."""
    table = Table("Sluice / the other", f"0 to {LONGEST:g}", "ratio", "goal", box=None)
    for key, value in ratio.items():
        goal = GOALS[key]
        colour = "green" if is_reached(key, value) else "red"
        bar = Bar(LONGEST, 0, min(value, LONGEST), width=60, color=colour)
        table.add_row(key, bar, f"{value:.2f}", f"{'≥' if goal < 0 else '≤'} {abs(goal):g}")
    return table


def write_chart(result: Mapping[str, Any], path: Path) -> None:
    """Write the ratios at the top of a result as SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(chart(result["ratio"]))
    console.save_svg(
        str(path),
        title=f"local/run bench --scale {result['scale']:g}",
        theme=DEFAULT_TERMINAL_THEME,
        code_format=_FORMAT,
    )
