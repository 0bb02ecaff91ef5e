"""Cells of regular records as columns of texts, by Arrow's reader.

It gets one block that has only complete records of one number of cells, whose quotes were checked: what it
would otherwise read in its own way (text behind a closing quote, an open one, other numbers of cells) is not
in it.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import csv

from sluice.core.csv.form import Dialect
from sluice.core.csv.records.line_ends import with_line_breaks
from sluice.core.csv.records.quotes import HIDDEN_CR, HIDDEN_LF

_BOM = b"\xef\xbb\xbf"


def columns(data: bytes, width: int, count: int, dialect: Dialect) -> list[pa.StringArray]:
    """The texts of ``count`` records of ``width`` cells, none of them null. Texts must be UTF-8, but for
    hidden line breaks, which are put back.

    Raises ArithmeticError if Arrow finds another number of records: nothing of a block is then used.
    """
    if not count:
        return [pa.array([], pa.string())] * width
    names = [str(number) for number in range(width)]
    first = 0
    if data.startswith(_BOM):
        # Arrow leaves it out, but it is of the first cell: that of the file was removed.
        data, first = dialect.separator.encode() * (width - 1) + b"\n" + data, 1
    table = csv.read_csv(
        pa.py_buffer(data),
        csv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
        csv.ParseOptions(
            delimiter=dialect.separator,
            quote_char=dialect.quote or False,
            double_quote=bool(dialect.quote),
            escape_char=dialect.escape or False,
            newlines_in_values=True,
            ignore_empty_lines=False,
        ),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, check_utf8=False
        ),
    )
    if table.num_rows != count + first:
        raise ArithmeticError(
            f"Arrow's CSV reader finds {table.num_rows - first} records where there are {count}. "
            "Fix: report it, with the file; nothing of this block was sent"
        )
    found = [_whole(column)[first:] for column in table.columns]
    return [with_line_breaks(texts) for texts in found] if HIDDEN_CR in data or HIDDEN_LF in data else found


def _whole(column: pa.ChunkedArray) -> pa.StringArray:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
