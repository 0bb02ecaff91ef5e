"""Rows whose record the topic does not take."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice.config.sending_rules import SendingRules


def oversize(rules: SendingRules) -> Column:
    """Why the ``value`` of a record is not sent; null if it is.

    By the value alone: a key has the number of earlier rows that are sent, which depends on this.
    """
    size = F.octet_length("value")
    limit = f" bytes, the topic takes {rules.max_value_bytes} (max.message.bytes {rules.max_message_bytes})"
    return F.when(
        size > rules.max_value_bytes,
        F.concat(F.lit("too large: the record's value has "), size.cast("string"), F.lit(limit)),
    )
