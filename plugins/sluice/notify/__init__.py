"""Which change of health a person is told of, and the texts: once per outage, and then its end.

In: the history of what was told, and a report or an error now. Out: a notification with subject, message,
remedy and links, or nothing. ``texts`` says what is due, ``remedies`` what to do about an error. How it is
delivered is Airflow's (``airflow/delivery``, ``airflow/notifications``). Start with ``texts``.
"""
