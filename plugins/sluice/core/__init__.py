"""The pure core: values, and functions of values, shared with the Spark jobs.

In: plain values, and the time as an argument. Out: plain values, or an error with its code and its fix.
It knows neither Airflow nor Spark nor a network, and nothing else of this package.
``offsets`` has the sets of offsets and what verification makes of them, ``tables`` what is known of a table
and its files, ``registry`` what records say of their schemas, ``changes`` the plan of a change, ``processes``
those of components, ``error_guide`` the cause and fix of each error. Start with
:mod:`~sluice.core.offsets.ranges`, then :mod:`~sluice.core.offsets.verify`: the promise that every offset is
in the lake exactly once.
"""
