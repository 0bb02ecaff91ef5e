"""The demo of a topic that others fill: a shop sends its orders, and the table is compared with what a plain
consumer reads.

`shop` and `plain_consumer` know nothing of Sluice: they are what a company has. `comparison` is pure, `demo`
runs all of it. Start with `demo`.
"""
