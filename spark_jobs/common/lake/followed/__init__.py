"""Tables that follow the schemas of their records: the document that says what a table follows, and the
commit that changes its columns.

In: a schema's text, and its columns in Arrow. Out: the document's digest, and Iceberg's metadata, which the
table commits. Columns and the property that names the document change in one commit, or not at all. Start
with ``documents``.
"""
