"""The reference tables of docs/, from the descriptions in code: `local/run python -m local.reference`.

In: the product's declarations and tables. Out: blocks between markers in the pages; the prose around them is
written by hand. tests/unit/docs/test_reference.py compares each page with its blocks. Start with ``pages``.
"""
