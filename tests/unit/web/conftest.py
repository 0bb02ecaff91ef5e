"""Airflow's configuration for what is imported of it here: a home of its own, before it is imported."""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="sluice-airflow-"))
