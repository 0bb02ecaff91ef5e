"""Further members of a row's object, as values of the columns that the table has by now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sluice.core.decoding.avro.types import without_times
from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.filling.batches import Filled
from sluice.core.decoding.filling.merging import HAS_A_VALUE
from sluice.core.decoding.json.decoder import JsonDecoder
from sluice.core.decoding.json.unknown import member_places

TWICE = "the record has it twice"
OTHER_VALUE = "its column cannot have the value"


class JsonFiller:
    """A :class:`~sluice.core.decoding.filling.batches.Filler` of records in JSON: each member is as it was
    sent, so it is decoded as it was not before."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        """As :class:`JsonDecoder`."""
        self._given = dict(columns)
        self._decoder = JsonDecoder(columns)
        self._plain = without_times(self.type)

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonFiller, (self._given,)

    @property
    def type(self) -> pa.StructType:
        """As the protocol says."""
        return pa.struct(list(self._decoder.schema))

    def fill(self, row: Mapping[str, Any], text: str) -> Filled:
        """As the protocol says."""
        found, rest = Filled(), list[str]()
        members = [(name, text[start:end]) for name, start, end in member_places(text)]
        times = Counter(name for name, _ in members)
        for name, member in members:
            if name not in row:
                rest.append(member)
                continue
            try:
                value = self._decoder.reference(f"{{{member}}}".encode(), ())[name]
                reason = HAS_A_VALUE if row[name] is not None else TWICE if times[name] > 1 else ""
            except Malformed:
                # Its text may have the value, and each reason is counted by itself.
                reason = OTHER_VALUE
            if reason:
                found.kept.append((name, reason))
                rest.append(member)
            else:
                found.values[name] = self._as_number(name, value)
                found.fields.append(name)
        found.left = "{%s}" % ",".join(rest) if rest else None  # noqa: UP031  (braces)
        return found

    def _as_number(self, name: str, value: Any) -> Any:
        column = pa.array([value], self.type.field(name).type)
        return column.cast(self._plain.field(name).type)[0].as_py()
