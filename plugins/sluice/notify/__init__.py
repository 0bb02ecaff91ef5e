"""Who is told of which change, and the texts: once per outage, and then its end; of a run, once.

In: how a task or run ended, the rules of ``notifications.toml``, the history of what was told, and a
channel to deliver by. Out: a notification with subject, message, remedy and links, delivered and recorded,
or nothing. ``occasions`` says which ends are told, ``Rule.covers`` (``config/notifications``) who is told
of a stream, ``conditions`` which of these rules are due, ``texts`` and ``remedies`` what they are told;
``telling`` does it. The channel is Airflow's (``airflow/channel``, ``airflow/delivery``), and so is the
moment (``airflow/callbacks``). Start with ``occasions``.
"""
