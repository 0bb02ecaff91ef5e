"""Airflow's own words: hook, operators, sensors, triggers, DAGs, forms, assets, callbacks.

Nothing is decided here that a command could not decide, too: these classes read params, defer, call a
capability, and turn its errors into task failures of one line with a code. ``dags`` builds every DAG of a
stream from its declaration, ``operators`` has a class per task, ``sensors`` the tasks that only wait,
``triggers`` what waits in the triggerer, ``forms`` the params of each DAG.
Start with ``dags``, then ``operators/base``.
"""
