"""The embedded stack: what is fetched, built, started and supervised on one machine, without Docker."""

import sys
from pathlib import Path

# The checkout's own package, before anything is set up too, and not one that happens to be installed.
_PLUGINS = str(Path(__file__).resolve().parent.parent / "plugins")
if _PLUGINS not in sys.path:
    sys.path.insert(0, _PLUGINS)
