"""Call Airflow notifiers, each with a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseHook, BaseNotifier
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.module_loading import import_string

from sluice.config.notifications import CLASSES, FILE, SMTP, Rule, check_mail_server
from sluice.config.reading.toml import ConfigError
from sluice.notify.telling import NoAnswer
from sluice.notify.texts import Notification, one_line

# For all rules together. Airflow ends a process 20 s after its task has ended ([core] task_success_overtime),
# callbacks included, and the ledger is read before and written after.
LIMIT_SECONDS = 12.0


def deliver(
    rules: Sequence[Rule],
    notification: Notification,
    context: Mapping[str, Any],
    limit: float = LIMIT_SECONDS,
) -> dict[str, str]:
    """Call the notifiers of ``rules`` at the same time. Returns rule id -> reason of those that failed;
    NoAnswer of those that did not return within ``limit`` seconds.

    Threads, and not a process: a notifier gets its connection over its task's own channel to Airflow. One
    that hangs is a daemon, which ends with the process.
    """
    deliveries = [_Delivery(rule, {**context, "sluice": notification.values()}) for rule in rules]
    for delivery in deliveries:
        delivery.start()
    end = time.monotonic() + limit
    for delivery in deliveries:
        delivery.join(max(end - time.monotonic(), 0.0))
    return {
        delivery.rule.id: NoAnswer(f"no answer within {limit:g} s")
        if delivery.is_alive()
        else delivery.failure
        for delivery in deliveries
        if delivery.is_alive() or delivery.failure
    }


class _Delivery(threading.Thread):
    def __init__(self, rule: Rule, context: dict[str, Any]) -> None:
        super().__init__(name=f"notify-{rule.id}", daemon=True)
        self.rule = rule
        self.context = context
        self.failure = ""

    def run(self) -> None:
        try:
            notifier = notifier_of(self.rule)
            if self.rule.class_path == CLASSES[SMTP]:
                _check_mail_server(notifier)
            notifier(self.context)
        except ConfigError as error:
            self.failure = str(error)
        except Exception as error:
            self.failure = f"{type(error).__name__}: {one_line(error)}"


def _check_mail_server(notifier: Any) -> None:
    """Raises ConfigError as ``check_mail_server``, before anything is sent."""
    name = notifier.smtp_conn_id
    try:
        found = BaseHook.get_connection(name)
    except AirflowNotFoundException:
        # The notifier's own to say.
        return
    check_mail_server(name, found.host or "", found.extra_dejson)


def notifier_of(rule: Rule) -> BaseNotifier:
    """Raises ConfigError for a class that is none, or does not take the arguments."""
    where = f"{FILE}: notifier {rule.notifier!r}"
    try:
        cls = import_string(rule.class_path)
    except ImportError as error:
        raise ConfigError(
            f"{where}: {one_line(error)}. Fix: correct the path, or install its package for Airflow"
        ) from error
    if not (isinstance(cls, type) and issubclass(cls, BaseNotifier)):
        raise ConfigError(
            f"{where}: it is no subclass of {BaseNotifier.__name__}. Fix: name a notifier's class"
        )
    try:
        return cls(**rule.values)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {one_line(error)}. Fix: correct [notify.arguments]") from error
