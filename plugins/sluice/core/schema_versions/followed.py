"""The schema that a table follows: the property that names it, and where it is."""

from __future__ import annotations

# The digest of a document beside the table; a table with the declared schema has none.
PROPERTY = "sluice.schema"
# What a document's name ends with.
AVRO, PROTOBUF = "avsc", "json"
# The folder of the documents, in the table's.
FOLDER = "schemas"


def address(location: str, digest: str, ending: str = AVRO) -> str:
    return f"{location}/{FOLDER}/{digest}.{ending}"
