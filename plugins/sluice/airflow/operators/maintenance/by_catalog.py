"""Steps of maintenance that a managed catalog does by itself: skipped there, and never done twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from sluice.airflow.failures import final_failures
from sluice.airflow.operators.base import StepMixin
from sluice.config.platform_sections.lake import BY_CATALOG

if TYPE_CHECKING:
    from airflow.sdk import Context


class OwnMaintenanceMixin(StepMixin):
    """A step that is skipped, with the reason, where ``[lake] maintenance`` is the catalog's: a step that is
    green would say that it was done."""

    # What is left to the catalog.
    left = ""

    def checked_work(self, context: Context) -> Any:
        with final_failures():
            is_skipped = self.platform_hook.platform.lake.is_maintained_by_catalog
        if is_skipped:
            raise AirflowSkipException(
                f'skipped: {self.left}, by the declaration [lake] maintenance = "{BY_CATALOG}"; nothing was '
                f"done or looked at here, and {self.stream}_reconciliation verifies what the catalog rewrites"
            )
        return super().checked_work(context)
