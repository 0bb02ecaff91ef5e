"""Shapes of Protobuf schemas, as the tests of public repositories have them: of the message T.

The repositories are those of protobuf (unittest, unittest_proto3_optional, map_unittest, unittest_retention,
editions, test_bad_identifiers), googleapis, buf, cel-spec, Confluent's, Amazon's and Aiven's registries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WELL_KNOWN = ["any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers"]
IMPORTS = " ".join(f'import "google/protobuf/{name}.proto";' for name in WELL_KNOWN)


@dataclass(frozen=True)
class Shape:
    """``body``: of the file that has T. ``head``: what is before it. ``files``: those that it imports, by
    name. ``refused``: what the reason has, empty if a table has the shape. ``recursive``: fields that contain
    themselves are texts."""

    body: str
    head: str = 'syntax = "proto3";'
    files: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    recursive: bool = False

    @property
    def text(self) -> str:
        return f"{self.head}\n{self.body}"


PROTO2, EDITION = 'syntax = "proto2";', 'edition = "2023";'
NUMBERS = [
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "float",
    "double",
    "bool",
]
SCALARS = [*NUMBERS, "string", "bytes"]


def each(label: str = "", kinds: list[str] = SCALARS, first: int = 1, prefix: str = "f_") -> str:
    """A field of each kind."""
    return " ".join(f"{label} {kind} {prefix}{kind} = {first + n};" for n, kind in enumerate(kinds))


def google(*kinds: str, label: str = "") -> str:
    return " ".join(
        f"{label} google.protobuf.{kind} a_{kind.lower()} = {n};" for n, kind in enumerate(kinds, 1)
    )


WRAPPERS = (
    "DoubleValue FloatValue Int64Value UInt64Value Int32Value UInt32Value BoolValue StringValue BytesValue"
)
TREE = "message T { string name = 1; repeated T children = 2; }"
OTHER = """syntax = "proto3"; package other.v1;
message Item { string sku = 1; Kind kind = 2; } enum Kind { K0 = 0; K1 = 1; }"""

SHAPES: dict[str, Shape] = {
    "each scalar type": Shape(f"message T {{ {each()} }}"),
    "each scalar type, optional": Shape(f"message T {{ {each('optional')} }}"),
    "each scalar type, repeated": Shape(f"message T {{ {each('repeated')} }}"),
    "repeated numbers, packed and not": Shape(
        "message T { repeated int32 a = 1 [packed = false]; repeated int32 b = 2 [packed = true];"
        " repeated double c = 3 [packed = false]; }"
    ),
    "each scalar type of proto2, with defaults": Shape(
        "message T { optional int32 a = 61 [default = 41]; optional sint32 b = 65 [default = -45];"
        " optional float c = 71 [default = 51.5]; optional double d = 72 [default = inf];"
        ' optional bool e = 73 [default = true]; optional string f = 74 [default = "hello"];'
        ' optional bytes g = 75 [default = "w\\000rld"]; optional E h = 81 [default = BAR];'
        " optional uint64 i = 64 [default = 18446744073709551615]; }"
        " enum E { FOO = 1; BAR = 2; NEG = -1; }",
        PROTO2,
    ),
    "required fields, also inside": Shape(
        "message T { required int32 a = 1; optional In in = 2; repeated In ins = 3; }"
        " message In { required string b = 1; optional int32 c = 33; }",
        PROTO2,
    ),
    "groups": Shape(
        "message T { optional group One = 16 { optional int32 a = 17; optional int32 zz = 89; }"
        " repeated group Many = 46 { optional int32 a = 47; } }",
        PROTO2,
    ),
    "extensions": Shape(
        "message T { optional int32 a = 1; repeated fixed32 b = 3; extensions 2, 4, 100 to max;"
        " extend T { optional int32 c = 2; repeated fixed32 d = 4; } } extend T { optional T e = 100; }",
        PROTO2,
    ),
    "a message set": Shape(
        "message T { option message_set_wire_format = true; extensions 4 to max; }",
        PROTO2,
        refused=("T has the format of message sets",),
    ),
    "messages inside, three levels": Shape(
        "message T { A a = 1; message A { B b = 1; message B { C c = 1; message C { int32 x = 1; } } } }"
    ),
    "one name at several levels": Shape(
        "message T { message T { message In { int32 a = 1; } In in = 1; } message In { string b = 1; }"
        " T t = 1; In in = 2; .p.In other = 3; .p.T.T again = 4; } message In { bool c = 1; }",
        'syntax = "proto3"; package p;',
    ),
    "enums with aliases and values below zero": Shape(
        "message T { enum E { option allow_alias = true; FOO = 0; BAR = 1; BAZ = 2; MOO = 2; moo = 2;"
        " NEG = -1; LEAST = -2147483648; MOST = 2147483647; } E one = 1; repeated E many = 2;"
        " optional E maybe = 3; map<string, E> by_name = 4; }"
    ),
    "an enum of another file, reserved numbers and names": Shape(
        'import "kinds.proto"; message T { reserved 2, 15, 9 to 11; reserved "bar", "baz"; Kind k = 1; }',
        files={
            "kinds.proto": 'syntax = "proto3"; enum Kind { UNKNOWN = 0; reserved 2, 9 to 11; reserved "B";'
            " LATE = 123456; }"
        },
    ),
    "closed enums": Shape(
        "message T { optional E a = 1; repeated E b = 2 [packed = true]; map<int32, Z> c = 3; }"
        " enum E { ONE = 1; TWO = 2; } enum Z { NONE = 0; SOME = 7; }",
        PROTO2,
    ),
    "a map of an enum without a zero": Shape(
        "message T { map<int32, E> c = 3; } enum E { ONE = 1; TWO = 2; }",
        PROTO2,
        refused=("Enum value in map must define 0 as the first value",),
    ),
    "a map of each type of key": Shape(
        "message T {"
        + " ".join(
            f"map<{kind}, int32> m_{kind} = {n};"
            for n, kind in enumerate([one for one in SCALARS if one not in ("float", "double", "bytes")], 1)
        )
        + "}"
    ),
    "a map of each type of value": Shape(
        "message T {"
        + " ".join(f"map<string, {kind}> m_{kind} = {n};" for n, kind in enumerate(SCALARS, 1))
        + "}"
    ),
    "maps of messages, of enums, of maps": Shape(
        "message T { map<string, In> a = 1; map<int64, E> b = 2; map<string, Deep> c = 3; }"
        " message In { int32 x = 1; map<bool, string> y = 2; } message Deep { map<string, In> z = 1; }"
        " enum E { E0 = 0; E1 = 1; }"
    ),
    "a oneof of each scalar type": Shape(f"message T {{ oneof one {{ {each()} }} }}"),
    "two oneofs, with messages and enums": Shape(
        "message T { string id = 1; oneof a { In in = 2; E e = 3; string text = 4; }"
        " oneof b { In other = 5; bytes raw = 6; } } message In { oneof c { int32 x = 1; string y = 2; } }"
        " enum E { E0 = 0; E1 = 1; }"
    ),
    "optional messages and enums": Shape(
        "message T { optional In a = 1; optional E b = 2; oneof one { int32 c = 3; } }"
        " message In { optional int32 x = 1; int32 y = 2; } enum E { E0 = 0; E1 = 1; }"
    ),
    "times": Shape(
        f"{IMPORTS} message T {{ {google('Timestamp', 'Duration')}"
        " repeated google.protobuf.Timestamp many = 8; map<string, google.protobuf.Duration> named = 9;"
        " oneof one { google.protobuf.Timestamp at = 10; google.protobuf.Duration took = 11; } }"
    ),
    "wrappers": Shape(f"{IMPORTS} message T {{ {google(*WRAPPERS.split())} }}"),
    "wrappers, repeated, in maps and in a oneof": Shape(
        f"{IMPORTS} message T {{ {google(*WRAPPERS.split(), label='repeated')}"
        " map<string, google.protobuf.Int64Value> named = 20;"
        " oneof one { google.protobuf.StringValue text = 21; google.protobuf.BoolValue flag = 22; } }"
    ),
    "structs, values and lists": Shape(
        f"{IMPORTS} message T {{ {google('Struct', 'Value', 'ListValue')} google.protobuf.NullValue null = 4;"
        " repeated google.protobuf.Struct many = 5; }"
    ),
    "any": Shape(f"{IMPORTS} message T {{ {google('Any')} repeated google.protobuf.Any details = 2; }}"),
    "a field mask": Shape(f"{IMPORTS} message T {{ {google('FieldMask')} string name = 2; }}"),
    "messages without fields": Shape(
        f"{IMPORTS} message T {{ {google('Empty')} Own own = 2; repeated Own owns = 3; message Own {{}} }}"
    ),
    "nothing but a message without fields": Shape(
        "message T { reserved 1 to 5; }", refused=("T has no fields: it has no columns",)
    ),
    "imports of imports, and public ones": Shape(
        'import "a.proto"; message T { other.v1.Item item = 1; repeated other.v1.Item items = 2; }',
        files={
            "a.proto": 'syntax = "proto3"; import public "dir/b.proto";',
            "dir/b.proto": OTHER,
        },
    ),
    "relative names of packages": Shape(
        'import "b.proto"; message T { v1.Item a = 1; other.v1.Item b = 2; .other.v1.Kind c = 3; }',
        'syntax = "proto3"; package other;',
        files={"b.proto": OTHER},
    ),
    "an import that is not there": Shape(
        'import "google/api/annotations.proto"; message T { int32 a = 1; }',
        refused=("google/api/annotations.proto",),
    ),
    "custom options of a file beside it": Shape(
        'import "options.proto"; message T { option (kind) = "t";'
        " string a = 1 [(secret) = true, deprecated = true]; }",
        files={
            "options.proto": 'syntax = "proto2"; import "google/protobuf/descriptor.proto";'
            " extend google.protobuf.FieldOptions { optional bool secret = 50001; }"
            " extend google.protobuf.MessageOptions { optional string kind = 50002; }"
        },
    ),
    "Confluent's decimal": Shape(
        'import "confluent/type/decimal.proto"; import "confluent/meta.proto";'
        ' message T { confluent.type.Decimal price = 1 [(confluent.field_meta) = { doc: "x" }]; }'
    ),
    "types of googleapis": Shape(
        'import "google/type/money.proto"; import "google/type/date.proto";'
        ' import "google/type/latlng.proto";'
        " message T { google.type.Money price = 1; google.type.Date day = 2; google.type.LatLng at = 3; }"
    ),
    "words that are reserved elsewhere": Shape(
        "message T { string message = 1; int32 class = 2; bool select = 3; string package = 4;"
        " bytes import = 5; In from = 6; oneof order { int32 group = 7; string table = 8; }"
        " message In { int32 oneof = 1; string None = 2; string def = 3; } }"
    ),
    "names beside the usual ones": Shape(
        "message T { int32 fooBar = 1; int32 _lead = 2; int32 TRAIL_ = 3; int32 a1_b2 = 4;"
        " int32 lowerThenUPPER = 5; int32 a__b = 6; }"
    ),
    "names of JSON": Shape(
        'message T { int32 a = 1 [json_name = "other"]; string b = 2 [json_name = "@type"]; }'
    ),
    "the highest number of a field": Shape("message T { int32 a = 536870911; repeated string b = 18999; }"),
    "an edition: presence, closed enums, delimited messages": Shape(
        "message T { int32 explicit = 1; int32 implicit = 2 [features.field_presence = IMPLICIT];"
        " int32 must = 3 [features.field_presence = LEGACY_REQUIRED]; E kind = 4;"
        " In in = 5 [features.message_encoding = DELIMITED];"
        " repeated In ins = 6 [features.message_encoding = DELIMITED];"
        " repeated int32 expanded = 7 [features.repeated_field_encoding = EXPANDED];"
        " string any = 8 [features.utf8_validation = NONE]; map<string, In> named = 9;"
        " message In { int32 a = 1; } }"
        " enum E { option features.enum_type = CLOSED; FOO = 1; BAR = 2; }",
        EDITION,
    ),
    "an edition with proto3's features": Shape(
        "option features.field_presence = IMPLICIT; message T { int32 a = 1; string b = 2; T2 c = 3; }"
        " message T2 { int32 x = 1 [features.field_presence = EXPLICIT]; }",
        EDITION,
    ),
    "a message in itself": Shape(TREE, refused=("children", "T")),
    "a message in itself, as text": Shape(TREE, recursive=True),
    "messages in each other, as text": Shape(
        "message T { string id = 1; A a = 2; } message A { int32 x = 1; B b = 2; }"
        " message B { string y = 1; A a = 2; map<string, B> more = 3; }",
        recursive=True,
    ),
    "a message in itself by a oneof and a map": Shape(
        "message T { oneof one { T next = 1; string leaf = 2; } map<string, T> by_name = 3; }",
        refused=("next",),
    ),
    "services": Shape(
        "message T { int32 a = 1; } service S { rpc Get(T) returns (T);"
        " rpc All(stream T) returns (stream T); }"
    ),
}
