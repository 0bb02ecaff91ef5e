"""AWS Glue by PyIceberg, with deadlines, and commits that are refused for what they did not do themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.catalog import BOTOCORE_SESSION
from pyiceberg.catalog.glue import GLUE_CATALOG_ENDPOINT, GLUE_MAX_RETRIES, GLUE_REGION, GlueCatalog
from pyiceberg.exceptions import CommitFailedException

from sluice.clients.proxies import for_botocore, of_aws
from sluice.clients.s3.login.session import botocore_session
from sluice.clients.s3.requests import USUAL
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.platform_sections.s3 import of_properties
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused

# Parameter of a table in Glue, of both of Iceberg's clients.
LOCATION = "metadata_location"


class BoundedGlue(GlueCatalog):
    """Made of PyIceberg's properties; nothing is sent yet."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        from botocore.config import Config

        endpoint = properties.get(GLUE_CATALOG_ENDPOINT) or of_aws("glue", properties.get(GLUE_REGION, ""))
        session = botocore_session(of_properties(properties))
        usual = Config(
            connect_timeout=USUAL.connect_seconds,
            read_timeout=USUAL.read_seconds,
            proxies=for_botocore(endpoint),
        )
        session.set_default_client_config(usual)
        # Throttled requests are among those that are tried again.
        bounded = {BOTOCORE_SESSION: session, GLUE_MAX_RETRIES: USUAL.attempts - 1}
        super().__init__(CATALOG, **{**properties, **bounded})

    def metadata_location(self, database: str, table: str) -> str | None:
        """A table's current metadata file; None without a table of the name. Raises Refused if it is none of
        Iceberg's."""
        try:
            found = self.glue.get_table(DatabaseName=database, Name=table)["Table"]
        except self.glue.exceptions.EntityNotFoundException:
            return None
        location = found.get("Parameters", {}).get(LOCATION)
        if not location:
            message = (
                f"table {database}.{table}: Glue has a table of this name without parameter {LOCATION}, so "
                "it is none of Iceberg's. Fix: name another table in the stream's stream.toml, or drop it"
            )
            raise Refused(message, ErrorCode.TABLE_REPLACED)
        return str(location)

    def _update_glue_table(
        self, database_name: str, table_name: str, table_input: Any, version_id: str
    ) -> None:
        try:
            super()._update_glue_table(database_name, table_name, table_input, version_id)
        except CommitFailedException as error:
            # A commit whose answer was lost is sent again, and refused by what it has committed itself.
            wanted = table_input.get("Parameters", {}).get(LOCATION)
            if not _was_repeated(error) or self.metadata_location(database_name, table_name) != wanted:
                raise

    def close(self) -> None:
        self.glue.close()


def _was_repeated(error: CommitFailedException) -> bool:
    """Whether Glue answered to a request that was sent before."""
    answer: Any = getattr(error.__cause__, "response", {})
    return bool(answer.get("ResponseMetadata", {}).get("RetryAttempts"))
