"""Sensors: tasks that wait for a stream, in Sluice's own DAGs and in other people's.

``PublishedSensor`` waits until offsets, or a load's records, are published or counted by the queries;
``StreamHealthSensor`` until a component is as healthy as expected. In: the stream's name. Out: the trigger's
event, or a failure of one line that says what was seen last. Each waits in the triggerer (``deferrable``);
in a worker, by ``mode`` poke or reschedule, it asks the same trigger, so each wait has one condition.
``soft_fail`` is refused. Start with ``base``; docs/dags.md has an example.
"""
