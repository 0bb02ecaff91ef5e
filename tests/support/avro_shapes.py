"""A hundred shapes of Avro schemas that public repositories have in their test data: of Avro itself, of
registries, of Debezium, Iceberg, Hudi, and of libraries in other languages. Shapes, not files: each is
written for its point.

``SHAPES``: a name -> its fields beside ``id``, and the path and the words for which a table refuses to follow
it, none if it follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Fields = list[Any]


def record(name: str, *fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [named(one, n) for n, one in enumerate(fields)], **more}


def named(field: Any, number: int = 0) -> dict[str, Any]:
    """A field: a whole one, a name with its type, or a type alone."""
    if isinstance(field, tuple):
        return {"name": field[0], "type": field[1]}
    is_whole = isinstance(field, dict) and "name" in field and "type" in field and "fields" not in field
    if is_whole and not {"symbols", "size"} & field.keys():
        return dict(field)
    return {"name": f"f{number}", "type": field}


def f(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def array(of: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": of, **more}


def mapped(of: Any) -> dict[str, Any]:
    return {"type": "map", "values": of}


def enum(name: str, *symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def decimal(precision: int, scale: int = 0, **more: Any) -> dict[str, Any]:
    return logical("bytes", "decimal", precision=precision, scale=scale, **more)


def null(of: Any) -> list[Any]:
    return ["null", of]


ALL = ["boolean", "int", "long", "float", "double", "bytes", "string"]
KIND = enum("Kind", "A", "B", "C")
POINT = record("Point", ("x", "int"), ("y", "int"))
AMOUNT = record("Amount", ("currency", "string"), ("value", decimal(18, 4)))
CLICK = record("Click", ("url", "string"), ("button", "int"))
VIEW = record("View", ("page", "string"), ("millis", "long"))
EMPTY = record("Empty")
ROW = record("Value", ("id", "long"), ("name", null("string")), connect="x")
PARAMETERS = {"connect.name": "io.debezium.time.MicroTimestamp", "connect.version": 1}
MAY_NOT = "a name that no column can have"

SHAPES: dict[str, tuple[Fields, str]] = {
    "one primitive": (["int"], ""),
    "all primitives": (ALL, ""),
    "all primitives, each in braces": ([{"type": one} for one in ALL], ""),
    "braces in braces": ([{"type": {"type": "string"}}, {"type": array("int")}], ""),
    "a named type in braces": ([KIND, {"type": "Kind"}], ""),
    "all primitives, each with null": ([null(one) for one in ALL], ""),
    "null as the last branch": ([[one, "null"] for one in ALL], ""),
    "unions of one type": ([["int"], ["string"]], ""),
    "a union of null alone": ([f("n", ["null"]), "int"], ""),
    "a field that is null alone": ([f("n", "null"), "int"], ""),
    "a record with a field that is null alone": ([record("R", ("n", "null"), ("x", "int"))], ""),
    "a record of nulls alone": ([f("r", record("R", ("n", "null")))], ""),
    "an array of nulls": ([f("a", array("null"))], "items that take no bytes (at a)"),
    "an array of empty records": ([f("a", array(EMPTY))], "items that take no bytes (at a)"),
    "a map of nulls": ([f("m", mapped("null"))], "m[]: the table has no such column, the schema a type that"),
    "an array of unions with null": ([array(null("int")), array(["string", "null"])], ""),
    "an array of unions of null alone": ([f("a", array(["null"]))], "a[]: the table has no such column"),
    "a union of two primitives": ([["int", "string"]], ""),
    "a union of two numbers": (
        [["int", "long"], ["float", "double"], null("int"), ["long", "null", "int"]],
        "",
    ),
    "a union of numbers with times": ([[logical("int", "date"), logical("long", "timestamp-micros")]], ""),
    "a union of all": ([["null", *ALL]], ""),
    "a union of two records": ([[CLICK, VIEW]], ""),
    "a union of records and null": ([["null", CLICK, VIEW, AMOUNT]], ""),
    "a union of records with the same fields": ([[record("A", ("x", "int")), record("B", ("x", "int"))]], ""),
    "a union of a record and a text": ([["string", CLICK]], ""),
    "a union of an enum, a fixed and bytes": ([[KIND, fixed("H", 4), "bytes"]], ""),
    "a union of an array and a map": ([[array("int"), mapped("string")]], ""),
    "a union of several with a decimal": ([["null", "string", decimal(9, 2)]], ""),
    "a union of records of which one is empty": ([["null", CLICK, EMPTY]], ""),
    "a union within a record of a union": ([null(record("R", ("u", ["int", CLICK])))], ""),
    "a union in a union": ([f("u", ["null", ["int"]])], "of a union, or of a type twice (at u)"),
    "a union of nothing": ([f("u", [])], "a union of nothing, of a union, or of a type twice (at u)"),
    "a union with a type twice": ([f("r", record("R", ("u", ["int", "int"])))], "of a type twice (at r.u)"),
    "an array of unions of several": ([array(["int", "string", "null"])], ""),
    "a map of unions of several": ([mapped(["null", "double", "string", POINT])], ""),
    "an array of arrays": ([array(array("string"))], ""),
    "an array of maps of arrays with null": ([array(mapped(null(array("string"))))], ""),
    "a map of arrays of records": ([mapped(array(POINT))], ""),
    "a map of maps": ([mapped(mapped("long"))], ""),
    "an array with a default": ([f("a", array("int", default=[]), default=[])], ""),
    "an array of records with arrays": ([array(record("L", ("n", "int"), ("tags", array("string"))))], ""),
    "an array with a Java class": ([array("int", **{"java-class": "java.util.ArrayList"})], ""),
    "a text with a Java string": ([{"type": "string", "avro.java.string": "String"}], ""),
    "an enum": ([KIND], ""),
    "an enum with a default": ([enum("K", "A", "B", default="A")], ""),
    "an enum in a nested record, used again": ([record("R", ("k", KIND)), "Kind", array("Kind")], ""),
    "an enum of one symbol": ([enum("K", "ONLY")], ""),
    "an enum of no symbols": ([f("e", enum("K"))], "an enum without symbols: n.K (at e)"),
    "an enum of a thousand symbols": ([enum("K", *(f"S{n}" for n in range(1_000)))], ""),
    "an enum with a doc and an alias": ([enum("K", "A", "B", doc="of it", aliases=["Old"])], ""),
    "a fixed": ([fixed("MD5", 16)], ""),
    "a fixed of no bytes": ([fixed("None0", 0), "int"], ""),
    "a fixed used by its name": ([fixed("MD5", 16), null("MD5"), array("MD5")], ""),
    "a fixed of less than no bytes": ([f("x", fixed("F", -1))], "a fixed type of -1 bytes (at x)"),
    "a decimal in bytes": ([decimal(9, 2), decimal(38, 38), decimal(1)], ""),
    "a decimal in a fixed": ([fixed("D", 16, logicalType="decimal", precision=38, scale=10)], ""),
    "a decimal without a scale": ([logical("bytes", "decimal", precision=4)], ""),
    "a decimal of no valid digits is bytes": ([decimal(2, 3), decimal(0), decimal(4, -1)], ""),
    "a decimal of more digits than its fixed": ([fixed("D", 2, logicalType="decimal", precision=9)], ""),
    "a decimal of too many digits": (
        [f("d", null(decimal(39, 2)))],
        "d: the table has no such column, the schema",
    ),
    "a decimal of too many digits within": (
        [f("r", array(record("R", ("d", decimal(50)))))],
        "r[].d: the table",
    ),
    "arrays and maps of decimals": ([array(decimal(10, 2)), mapped(null(decimal(20, 5)))], ""),
    "a date": ([logical("int", "date"), null(logical("int", "date"))], ""),
    "times of a day": ([logical("int", "time-millis"), logical("long", "time-micros")], ""),
    "timestamps": ([logical("long", f"timestamp-{one}") for one in ("millis", "micros", "nanos")], ""),
    "local timestamps": (
        [logical("long", f"local-timestamp-{one}") for one in ("millis", "micros", "nanos")],
        "",
    ),
    "lists of timestamps": ([array(logical("long", "timestamp-millis")), mapped(logical("int", "date"))], ""),
    "a uuid": ([logical("string", "uuid"), null(logical("string", "uuid"))], ""),
    "a uuid in a fixed": ([fixed("U", 16, logicalType="uuid")], ""),
    "a duration": ([fixed("D", 12, logicalType="duration")], ""),
    "a big decimal": ([logical("bytes", "big-decimal")], ""),
    "a logical type of one's own": ([logical("string", "shop.colour"), logical("int", "x")], ""),
    "a logical type on another type": ([logical("string", "date"), logical("int", "timestamp-millis")], ""),
    "a logical type beside a name's use": ([fixed("D", 12), {"type": "D", "logicalType": "duration"}], ""),
    "a logical type of the field alone": ([f("t", "long", logicalType="timestamp-millis")], ""),
    "nested records": ([record("A", ("b", record("B", ("c", record("C", ("x", "int"))))))], ""),
    "a record used by its name": ([POINT, "Point", null("Point"), array("Point"), mapped("Point")], ""),
    "an error": ([{**POINT, "type": "error"}], ""),
    "an empty record": ([EMPTY, "int"], ""),
    "an empty record that may be null": ([null(EMPTY), "int"], ""),
    "an empty record in a record": ([record("R", ("e", EMPTY), ("x", "int"))], ""),
    "a map of empty records": ([mapped(EMPTY)], ""),
    "namespaces": ([record("R", ("x", POINT), namespace="a.b"), "a.b.Point", array("a.b.R")], ""),
    "names with points": (
        [enum("a.b.K", "A"), record("c.d.R", ("k", "a.b.K"), ("p", POINT)), "c.d.Point"],
        "",
    ),
    "a name without a namespace, used in one": (
        [{**POINT, "namespace": ""}, "Point"],
        "UnknownType: n.Point",
    ),
    "one name in two namespaces": (
        [record("x.P", ("a", "int")), record("y.P", ("b", "string")), ["x.P", "y.P"]],
        "",
    ),
    "aliases of fields and records": (
        [f("new", {**POINT, "aliases": ["Old"]}, aliases=["old", "older"])],
        "",
    ),
    "defaults of primitives": (
        [
            f("b", "boolean", default=True),
            f("i", "int", default=-1),
            f("l", "long", default=2**40),
            f("f", "float", default=0.5),
            f("d", "double", default=-1e12),
            f("y", "bytes", default="\xff\x00"),
            f("s", "string", default='a"b'),
        ],
        "",
    ),
    "defaults of nested types": (
        [
            f("r", POINT, default={"x": 1, "y": 2}),
            f("m", mapped("int"), default={"a": 1}),
            f("a", array("string"), default=["x"]),
            f("e", KIND, default="B"),
            f("z", fixed("F", 2), default="\0\xff"),
            f("n", null("int"), default=None),
            f("u", ["int", "null"], default=0),
        ],
        "",
    ),
    "a default that is none of its type": (
        [f("u", null("string"), default="null"), f("i", "int", default="x")],
        "",
    ),
    "words that languages reserve": (
        [
            f(one, "int")
            for one in ("class", "package", "select", "from", "order", "user", "default", "null", "type")
        ],
        "",
    ),
    "names of capitals": ([f("ID2", "int"), f("customerName", "string"), f("XMLHttpRequest", "int")], ""),
    "names with underscores": ([f("_id", "int"), f("__op", "string"), f("a__b_", "int")], ""),
    "names that differ in case": (
        [f("Name", "int"), f("name", "int")],
        "name: the table has Name, the schema name",
    ),
    "names within that differ in case": (
        [f("r", record("R", ("x", "int"), ("X", "int")))],
        "r.X: the table has no such column, the schema x too",
    ),
    "a name of the table's own": (
        [f("_kafka_offset", "long")],
        "_kafka_offset: the table has no such column",
    ),
    "a name of Iceberg's own": ([f("_pos", "long")], "_pos: the table has no such column"),
    "a name with a point": ([f("a.b", "int")], f"a.b: the table has no such column, the schema {MAY_NOT}"),
    "a name with a space": ([f("a b", "int")], f"a b: the table has no such column, the schema {MAY_NOT}"),
    "a name with a hyphen": ([f("r", record("R", ("a-b", "int")))], "r.a-b: the table has no such column"),
    "a name with a digit first": (
        [f("1a", "int")],
        f"1a: the table has no such column, the schema {MAY_NOT}",
    ),
    "a name with a dollar": (
        [f("m", mapped(record("R", ("$t", "int"))))],
        "m[].$t: the table has no such column",
    ),
    "a name that is not ASCII": ([f("gr\xf6\xdfe", "int")], "gr\xf6\xdfe: the table has no such column"),
    "a field twice": (
        [f("r", record("R", ("x", "int"), ("x", "long")))],
        "a record with a field twice, or without",
    ),
    "a field without a name": (
        [f("r", record("R", ("", "int")))],
        "a record with a field twice, or without a name",
    ),
    "docs and orders": (
        [f("a", "int", doc="of it", order="descending"), f("b", "string", order="ignore")],
        "",
    ),
    "props of one's own": ([f("a", {"type": "int", "pii": True, "tags": ["x"]}, team={"name": "t"})], ""),
    "a record that has itself": (
        [f("next", null("Row"))],
        "next: the table has no such column, the schema a n.Row inside",
    ),
    "a tree": ([f("label", "string"), f("children", array("Row"))], "children: the table has no such column"),
    "records that have each other": (
        [f("b", null(record("B", ("x", "int"), ("r", null("Row")))))],
        "b.r: the table has no such column",
    ),
    "a value of JSON": (
        [f("v", ["null", "boolean", "string", array("Row"), mapped("Row")])],
        "v: the table has no such column",
    ),
    "an unknown name": ([f("x", "Nothing")], "uses the type 'Nothing', which no schema to which it refers"),
    "a change event": (
        [
            f("before", null(ROW), default=None),
            f("after", null("Value"), default=None),
            f("op", "string"),
            f(
                "source",
                record(
                    "Source",
                    ("version", "string"),
                    f(
                        "snapshot",
                        null({"type": "string", "connect.parameters": {"allowed": "true,last,false"}}),
                        default=None,
                    ),
                ),
            ),
            f("ts_ms", null("long"), default=None),
        ],
        "",
    ),
    "a time of Debezium": (
        [{"type": "long", **PARAMETERS}, {"type": "bytes", "connect.name": "VariableScaleDecimal"}],
        "",
    ),
    "an envelope with a map of anything": ([f("meta", mapped(["null", *ALL])), f("body", "bytes")], ""),
    "a manifest entry of Iceberg": (
        [
            f("status", "int", **{"field-id": 0}),
            f(
                "data_file",
                record(
                    "r2",
                    f("file_path", "string", **{"field-id": 100}),
                    f(
                        "column_sizes",
                        null(
                            array(record("k117_v118", ("key", "int"), ("value", "long")), logicalType="map")
                        ),
                    ),
                ),
            ),
        ],
        "",
    ),
    "a commit of Hudi": (
        [
            f(
                "partitionToWriteStats",
                null(
                    mapped(
                        array(
                            record(
                                "Stat",
                                f("path", null({"type": "string", "avro.java.string": "String"})),
                                f("numWrites", null("long")),
                            )
                        )
                    )
                ),
                default=None,
            )
        ],
        "",
    ),
    "an optional list of optional records": ([null(array(null(POINT)))], ""),
    "an order with lines": (
        [
            f(
                "lines",
                array(record("Line", ("sku", "string"), ("amount", AMOUNT), f("discount", null("Amount")))),
            ),
            f("state", enum("State", "NEW", "PAID", default="NEW")),
            f("at", logical("long", "timestamp-millis")),
        ],
        "",
    ),
}


def columns(number: int) -> Fields:
    """So many with ``id``."""
    return [f(f"c{n}", null(ALL[n % len(ALL)])) for n in range(number - 1)]


def deep(levels: int, each: Callable[[Any], Any] = lambda kind: kind) -> Fields:
    """Records inside of each other; with the outermost one, and the value, so many levels."""
    found: Any = "int"
    for level in range(levels - 2, 0, -1):
        found = each(record(f"L{level}", ("in", found)))
    return [f("in", found)]


def long_docs() -> Fields:
    return [f(f"c{n}", null("string"), doc="x" * 5_000) for n in range(200)]


def wide_enums() -> Fields:
    return [enum(f"E{n}", *(f"SYMBOL_{n}_{one}" for one in range(600))) for n in range(100)]


# As SHAPES, made when they are used.
LARGE: dict[str, tuple[Callable[[], Fields], str]] = {
    "2,000 columns": (lambda: columns(2_000), ""),
    "2,001 columns": (
        lambda: columns(2_001),
        "the whole schema: the table has at most 2,000 columns, the schema 2,001",
    ),
    "50 levels": (lambda: deep(50), ""),
    "50 levels, each of which may be null": (lambda: deep(50, null), ""),
    "51 levels": (
        lambda: deep(51),
        ".".join(["in"] * 50) + ": the table has at most 50 levels, the schema more",
    ),
    "a megabyte of docs": (long_docs, ""),
    "a megabyte of symbols": (wide_enums, ""),
}
