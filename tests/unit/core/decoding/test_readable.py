"""Accepted values can be read by all readers; the next ones beyond them are rejected by their path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.core.decoding.readable import readable_times, unreadable
from tests.support.column_values import FIRST, LAST, LOCAL_FIRST, LOCAL_LAST, records, same

DAY = 86_400_000_000
# Days since 1970 of 0001-01-01 and 9999-12-31.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
        yield connection


@settings(
    max_examples=2 * settings().max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(columns=records())
def test_what_is_accepted_is_read_as_it_is(
    columns: pa.RecordBatch, tmp_path: Path, duck: duckdb.DuckDBPyConnection
) -> None:
    assert unreadable(columns) == {}
    table = pa.Table.from_batches([columns])
    path = tmp_path / "file.parquet"
    pq.write_table(table, path)
    rows = table.to_pylist()

    assert same(pq.read_table(path).to_pylist(), rows)
    found = duck.execute(f"SELECT * FROM read_parquet('{path}')").fetchall()
    assert same(found, [tuple(row.values()) for row in rows])
    frame = pd.read_parquet(path, dtype_backend="pyarrow")
    assert same(pa.Table.from_pandas(frame, table.schema, preserve_index=False).to_pylist(), rows)
    # With NumPy's types: fails for what these cannot hold.
    assert len(pd.read_parquet(path)) == len(rows)


def array(kind: pa.DataType, numbers: Sequence[int | None]) -> pa.Array:
    storage = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return pa.array(numbers, storage).view(kind)


def reasons(column: pa.Array, name: str = "t") -> dict[int, str]:
    return unreadable(pa.record_batch([column], names=[name]))


def test_dates_and_times_at_their_bounds() -> None:
    dates = array(pa.date32(), [FIRST_DAY - 1, FIRST_DAY, None, LAST_DAY, LAST_DAY + 1, -(2**31), 2**31 - 1])
    assert dates[1].as_py() == date.min
    assert dates[3].as_py() == date.max
    assert reasons(dates) == {
        0: "t is a date beyond the years 1 to 9999: 0000-12-31",
        4: "t is a date beyond the years 1 to 9999: +10000-01-01",
        5: "t is a date beyond the years 1 to 9999: -5877641-06-23",
        6: "t is a date beyond the years 1 to 9999: +5881580-07-11",
    }
    first, last = FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1
    local = array(pa.timestamp("us"), [first - 1, first, None, last, last + 1])
    assert [local[1].as_py(), local[3].as_py()] == [LOCAL_FIRST, LOCAL_LAST]
    assert reasons(local) == {
        0: "t is a time beyond the years 1 to 9999: 0000-12-31 23:59:59.999999",
        4: "t is a time beyond the years 1 to 9999: +10000-01-01 00:00:00",
    }
    first, last = first + DAY, last - DAY
    times = array(pa.timestamp("us", tz="UTC"), [first - 1, first, None, last, last + 1, -(2**63), 2**63 - 1])
    assert [times[1].as_py(), times[3].as_py()] == [FIRST, LAST]
    assert reasons(times) == {
        0: "t is a time beyond 0001-01-02 to 9999-12-30: 0001-01-01 23:59:59.999999",
        4: "t is a time beyond 0001-01-02 to 9999-12-30: 9999-12-31 00:00:00",
        5: "t is a time beyond 0001-01-02 to 9999-12-30: -290308-12-21 19:59:05.224192",
        6: "t is a time beyond 0001-01-02 to 9999-12-30: +294247-01-10 04:00:54.775807",
    }


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12", "Europe/Zurich"])
def test_times_are_readable_in_each_zone(zone: str) -> None:
    times = pa.table({"t": pa.array([FIRST, LAST], pa.timestamp("us", tz="UTC"))})
    with duckdb.connect() as duck:
        duck.execute(f"SET TimeZone = '{zone}'")
        assert duck.register("times", times).execute("SELECT t FROM times").fetchall() == [(FIRST,), (LAST,)]
    assert [one.astimezone(ZoneInfo(zone)) for one in (FIRST, LAST)] == [FIRST, LAST]


def decimal(digits: int, numbers: Sequence[int]) -> pa.Array:
    data = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    return pa.Array.from_buffers(pa.decimal128(digits, 2), len(numbers), [None, pa.py_buffer(data)])


@pytest.mark.parametrize("digits", [3, 18, 19, 38])
def test_decimals_at_the_bounds_of_their_column(digits: int) -> None:
    limit = 10**digits
    column = decimal(digits, [limit, limit - 1, 1 - limit, -limit])
    text = f"1{'0' * (digits - 2)}.00"
    assert reasons(column) == {
        0: f"t is a decimal of more than {digits} digits: {text}",
        3: f"t is a decimal of more than {digits} digits: -{text}",
    }
    assert reasons(column.slice(2)) == {1: f"t is a decimal of more than {digits} digits: -{text}"}
    assert reasons(column.slice(1, 2)) == {}


def texts(values: Sequence[bytes | None]) -> pa.StringArray:
    """Texts as they come: Arrow looks at none."""
    raw = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())


NOT_UTF8 = [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\x80"]


def test_texts() -> None:
    # One is cut into two: together they would be UTF-8.
    values = [b"", "é".encode(), None, b"\xc3", b"\xa9", *NOT_UTF8, b"a", "😀".encode()]
    assert reasons(texts(values)) == dict.fromkeys([3, 4, *range(5, 11)], "t is not UTF-8")
    assert reasons(texts(values).slice(4, 4)) == dict.fromkeys(range(4), "t is not UTF-8")
    assert reasons(texts(values).slice(11)) == {}


@given(
    st.lists(st.none() | st.binary(max_size=4) | st.sampled_from([*NOT_UTF8, b"ok", "é".encode()])), st.data()
)
def test_texts_are_what_python_decodes(values: list[bytes | None], data: st.DataObject) -> None:
    def is_text(value: bytes | None) -> bool:
        try:
            return value is None or isinstance(value.decode(), str)
        except UnicodeDecodeError:
            return False

    first = data.draw(st.integers(0, len(values)))
    assert reasons(texts(values).slice(first)) == {
        row: "t is not UTF-8" for row, value in enumerate(values[first:]) if not is_text(value)
    }


BAD = texts([b"a", b"b", b"\xff", b"c", b"d"])


def lists(values: pa.Array, bounds: Sequence[int | None]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), values)


def test_paths_of_nested_values() -> None:
    late = array(pa.timestamp("us"), [0, 0, 0, 0, 2**62])
    pair = pa.StructArray.from_arrays([BAD, late], ["a", "b"])
    assert reasons(pair) == {
        2: "t.a is not UTF-8",
        4: "t.b is a time beyond the years 1 to 9999: +148108-07-06 14:00:27.387904",
    }
    assert reasons(pair.slice(2)).keys() == {0, 2}
    outer = pa.StructArray.from_arrays([pair], ["s"])
    assert reasons(outer)[2] == "t.s.a is not UTF-8"

    bounds = [0, 2, 2, 4, 5]
    assert reasons(lists(BAD, bounds)) == {2: "an element of t is not UTF-8"}
    assert reasons(lists(BAD, bounds).slice(1, 2)) == {1: "an element of t is not UTF-8"}
    assert reasons(lists(late, bounds)) == {3: "an element of t is a time beyond the years 1 to 9999"}
    assert reasons(lists(pair, bounds)) == {
        2: "a of an element of t is not UTF-8",
        3: "b of an element of t is a time beyond the years 1 to 9999",
    }
    assert reasons(lists(lists(BAD, bounds), [0, 1, 4])) == {1: "an element of an element of t is not UTF-8"}
    inner = pa.StructArray.from_arrays([lists(BAD, bounds)], ["l"])
    assert reasons(inner) == {2: "an element of t.l is not UTF-8"}

    fine = texts([b"1", b"2", b"3", b"4", b"5"])
    keys = pa.MapArray.from_arrays(pa.array(bounds, pa.int32()), BAD, fine)
    assert reasons(keys) == {2: "a key of t is not UTF-8"}
    assert reasons(keys.slice(2, 1)) == {0: "a key of t is not UTF-8"}
    assert reasons(pa.MapArray.from_arrays(pa.array(bounds, pa.int32()), fine, BAD)) == {
        2: "a value of t is not UTF-8"
    }
    nested = pa.MapArray.from_arrays(pa.array([0, 4], pa.int32()), fine.slice(0, 4), keys)
    assert reasons(nested) == {0: "a key of a value of t is not UTF-8"}


def test_what_lies_behind_a_null_is_not_there() -> None:
    mask = pa.array([False, False, True, False, False])
    assert reasons(pa.StructArray.from_arrays([BAD], ["a"], mask=mask)) == {}
    # The null list has the third value.
    is_valid = pa.py_buffer(b"\x0b")
    bounds = pa.array([0, 1, 2, 3, 5], pa.int32()).buffers()[1]
    column = pa.Array.from_buffers(pa.list_(pa.string()), 4, [is_valid, bounds], children=[BAD])
    assert reasons(column) == {}


def test_what_a_null_has_is_not_looked_at() -> None:
    raw = texts([b"\xff", b"a", b"\xff"]).buffers()
    assert reasons(pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x02"), *raw[1:]])) == {}
    assert reasons(pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x06"), *raw[1:]])).keys() == {2}
    raw = decimal(3, [1000, 1, 1000]).buffers()
    kind = pa.decimal128(3, 2)
    assert reasons(pa.Array.from_buffers(kind, 3, [pa.py_buffer(b"\x02"), *raw[1:]])) == {}
    assert reasons(pa.Array.from_buffers(kind, 3, [pa.py_buffer(b"\x06"), *raw[1:]])).keys() == {2}
    raw = array(pa.timestamp("us"), [2**62, 0, 2**62]).buffers()
    kind = pa.timestamp("us")
    assert reasons(pa.Array.from_buffers(kind, 3, [pa.py_buffer(b"\x02"), *raw[1:]])) == {}
    assert reasons(pa.Array.from_buffers(kind, 3, [pa.py_buffer(b"\x06"), *raw[1:]])).keys() == {2}


def test_the_first_value_is_named() -> None:
    columns = pa.record_batch(
        [array(pa.date32(), [0, 0, LAST_DAY + 1, 0, 0]), BAD, BAD], names=["d", "e", "f"]
    )
    assert unreadable(columns) == {2: "d is a date beyond the years 1 to 9999: +10000-01-01"}
    assert unreadable(columns.select(["f", "d", "e"])) == {2: "f is not UTF-8"}


def test_equal_keys_of_a_map() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    maps = [
        [("a", 1)],
        None,
        [("a", 1), ("b", 1)],
        [("b", 1), ("c", 2), ("b", 1)],
        [],
        [("", 1), ("", 1), ("", 2)],
    ]
    column = pa.array(maps, kind)
    assert reasons(column) == {3: "two keys of t are equal", 5: "two keys of t are equal"}
    assert reasons(column.slice(2, 2)) == {1: "two keys of t are equal"}
    assert reasons(pa.array([[("a", 1), ("a", 2)]], kind)) == {0: "two keys of t are equal"}
    assert reasons(lists(column, [0, 3, 6])) == {1: "two keys of an element of t are equal"}


def test_a_damaged_array_is_no_bad_record() -> None:
    bounds = pa.array([0, 5, 3], pa.int32()).buffers()[1]
    column = pa.Array.from_buffers(pa.string(), 2, [None, bounds, pa.py_buffer(b"abcde")])
    with pytest.raises(pa.ArrowInvalid):
        reasons(column)


@pytest.mark.parametrize("kind", [pa.uint64(), pa.timestamp("ns"), pa.large_string(), pa.date64()])
def test_a_type_that_no_table_has(kind: pa.DataType) -> None:
    with pytest.raises(TypeError, match=r"^t is of Arrow's type .*, which no table has$"):
        reasons(pa.nulls(1, kind))


def test_times_in_kafka() -> None:
    first, last = (
        round((one - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1)) for one in (FIRST, LAST)
    )
    times = pa.array([first, first - 1, -1, None, last - 1, last, -(2**63)], pa.int64())
    found, why = readable_times(times)
    assert found.type == pa.timestamp("us", tz="UTC")
    assert found.cast(pa.int64()).to_pylist() == [
        first * 1000,
        None,
        -1000,
        None,
        (last - 1) * 1000,
        None,
        None,
    ]
    assert why == {
        1: "its timestamp in Kafka is beyond what can be read: 0001-01-01 23:59:59.999",
        3: "its timestamp in Kafka is beyond what can be read: null",
        5: "its timestamp in Kafka is beyond what can be read: 9999-12-31 00:00:00",
        6: "its timestamp in Kafka is beyond what can be read: -292275055-05-16 16:47:04.192",
    }
    again, same_reasons = readable_times(times.view(pa.timestamp("ms", tz="UTC")).slice(1))
    assert again.equals(found.slice(1))
    assert same_reasons == {row - 1: reason for row, reason in why.items()}
    assert readable_times(times.slice(0, 0))[1] == {}
