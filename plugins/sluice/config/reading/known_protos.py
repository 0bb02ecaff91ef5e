"""Files of Confluent's that its serializers import and do not register, since each of its clients has them.

Their messages and numbers are those of https://github.com/confluentinc/schema-registry (``protobuf-types``).
Google's are in the packages ``grpcio-tools`` (``google/protobuf``) and ``googleapis-common-protos``
(``google/type``).
"""

from __future__ import annotations

_META = """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_DECIMAL = """
syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""
_VARIANT = """
syntax = "proto3";
package confluent.type;
message Variant { bytes metadata = 1; bytes value = 2; }
"""
# An earlier name of the same.
_EARLIER = 'syntax = "proto3"; import public "confluent/type/decimal.proto";'

# The name by which a file is imported -> its text.
CONFLUENT = {
    "confluent/meta.proto": _META,
    "confluent/type/decimal.proto": _DECIMAL,
    "confluent/type/variant.proto": _VARIANT,
    "confluent/types/decimal.proto": _EARLIER,
}
