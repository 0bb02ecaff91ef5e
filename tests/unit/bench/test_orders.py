"""The orders of a topic of others: what the plain producer sends, and how rows of two tables are compared."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.table import Table

from bench.compare import orders
from bench.compare.contenders.jobs import from_start
from bench.compare.meter import Meter
from bench.compare.records import DeclaredOthers
from sluice.config import stream_columns, streams
from sluice.config.folders import VARIABLE
from sluice.config.stream import StreamSpec
from tests.support import lake as lakes

MakeSpec = Callable[[bool], StreamSpec]
# As PyIceberg and Spark have them.
FLAT = {"amount": pa.decimal128(10, 2), "placed_at": pa.timestamp("us", tz="UTC"), "order_id": pa.int64()}
CUSTOMER = pa.struct([("id", pa.int64()), *[(name, pa.string()) for name in ("name", "country", "email")]])
ITEM = pa.struct([("sku", pa.string()), ("quantity", pa.int32()), ("price", pa.float64())])


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeSpec:
    monkeypatch.setenv(VARIABLE, str(tmp_path))

    def make(is_json: bool) -> StreamSpec:
        DeclaredOthers("orders", "shop.orders", 5, 20_000, is_json=is_json).write(tmp_path)
        return streams.load("orders")

    return make


@pytest.mark.parametrize("is_json", [False, True])
def test_a_stream_of_orders_is_of_a_topic_of_others_with_the_columns_that_are_sent(
    declared: MakeSpec, is_json: bool
) -> None:
    spec = declared(is_json)
    assert not spec.topic.managed
    assert spec.records is not None
    assert (spec.records.registry, spec.records.key) == (not is_json, "text")
    (order,) = orders.orders(1)
    lacking = orders.NESTED if is_json else {}
    assert {*order} - {*stream_columns.declared_types(spec)} == {*lacking}
    assert {*order} == {*orders.FLAT, *orders.NESTED}


def test_both_formats_have_the_same_values() -> None:
    sent = list(orders.orders(300))
    assert sent == list(orders.orders(300))
    assert len({order["order_id"] for order in sent}) == 300
    schema = fastavro.parse_schema(json.loads(orders.AVRO))
    for order in sent:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, schema, order)
        body.seek(0)
        found: Any = fastavro.schemaless_reader(body, schema, None)
        text = json.loads(orders.as_json(order), parse_float=Decimal)
        assert found == order
        assert datetime.fromisoformat(text["placed_at"]) == order["placed_at"]
        assert Decimal(text["amount"]) == order["amount"]
        items = [{**item, "price": float(item["price"])} for item in text["items"]]
        assert (items, text["customer"]) == (order["items"], order["customer"])
    for name in ("discount", "coupon", "note"):
        assert {order[name] is None for order in sent} == {True, False}
    assert {len(order["items"]) for order in sent} == {1, 2, 3, 4}


def table(folder: Path, rows: list[dict[str, Any]], types: dict[str, pa.DataType]) -> Table:
    folder.mkdir()
    catalog = lakes.make(folder).catalog
    catalog.create_namespace_if_not_exists("shop")
    schema = pa.schema([(name, types.get(name, FLAT.get(name, pa.string()))) for name in rows[0]])
    found = catalog.create_table("shop.orders", schema)
    for part in (rows[1::2], rows[::2]):
        found.append(pa.Table.from_pylist(part, schema))
    return found


def different(folder: Path, change: Callable[[list[dict[str, Any]]], object]) -> list[str]:
    """Between a table with nested columns and one with the same rows, changed, that has them as texts."""
    rows = [{**row, "discount": None, "is_gift": None} for row in orders.orders(20)]
    ours: list[dict[str, Any]] = []
    for row in rows:
        text = json.dumps({name: row[name] for name in orders.NESTED})
        ours.append({name: row[name] for name in orders.FLAT} | {orders.UNKNOWN: text})
    change(ours)
    nested = {"customer": CUSTOMER, "items": pa.list_(ITEM)}
    return orders.different_columns(table(folder / "a", ours, {}), table(folder / "b", rows, nested))


def test_tables_of_equal_rows_have_no_different_column(tmp_path: Path) -> None:
    assert different(tmp_path, lambda rows: rows.reverse()) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rows: rows[3].update(status="lost"), ["status"]),
        (lambda rows: rows[3].update(amount=rows[3]["amount"] + Decimal("0.01")), ["amount"]),
        (
            lambda rows: rows[3].update({orders.UNKNOWN: rows[3][orders.UNKNOWN].replace("SKU", "sku", 1)}),
            ["items"],
        ),
        (lambda rows: rows.pop(), next(orders.orders(1)).keys()),
        (lambda rows: rows.append(rows[0]), next(orders.orders(1)).keys()),
    ],
)
def test_a_value_a_missing_row_and_one_that_is_there_twice_are_found(
    tmp_path: Path, change: Callable[[list[dict[str, Any]]], object], expected: Any
) -> None:
    assert different(tmp_path, change) == list(expected)


def test_the_cpu_seconds_with_the_start_are_those_of_the_process_since_it_was_there() -> None:
    meter = Meter({"job": 0})
    # The first sample is taken after a moment; a process that has ended keeps what it spent.
    meter.samples["job"] = [(10.0, 0.5), (14.0, 4.5), (20.0, 10.5)]
    assert from_start(meter, 14.0, 17.0) == {"start_seconds": 4.0, "cpu_seconds_with_start": 7.5}
