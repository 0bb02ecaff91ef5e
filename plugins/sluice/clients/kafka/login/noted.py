"""What librdkafka says in its callback alone: that a login is refused, or a connection ended. It tries again
by itself, and a request meanwhile only says, when its time is over, that it is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException

from sluice.clients.kafka.errors import LOST, is_denied, translated
from sluice.clients.kafka.login.properties import login_remark
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.errors import ClientError

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
# A refusal is noticed within this time; a broker answers in less.
_FIRST_SECONDS = 1.0
_SLICE_SECONDS = 0.25
# What a request says while there is no connection.
_WAITS = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN})


class Answer(Protocol[T_co]):
    """A future."""

    def result(self, timeout: float) -> T_co: ...


class Noted:
    """The callback ``error_cb`` of one client, or of several with the same login."""

    def __init__(self, kafka: Kafka, further: Callable[[KafkaError], object] | None = None) -> None:
        """``further``: is called with each error, too."""
        self._kafka, self._further = kafka, further
        self.refused: KafkaError | None = None
        # How often that was, since the client was made.
        self.refusals = 0
        # How the last connection ended.
        self._lost: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        if is_denied(error):
            self.refused = error
            self.refusals += 1
        elif error.code() in LOST:
            self._lost = error
        if self._further is not None:
            self._further(error)

    def answered(self) -> None:
        """Kafka answered: what was refused was corrected."""
        self.refused = self._lost = None

    def translated(self, what: str, error: KafkaException) -> ClientError:
        """The error of a request, for the reason that is known of it."""
        cause = error if self.refused is None else KafkaException(self.refused)
        return translated(what, cause, login_remark(self._kafka), self._lost)

    def result(self, future: Answer[T], seconds: float, poll: Callable[[float], object]) -> T:
        """What the future gives; KafkaException as soon as the login is refused meanwhile, TimeoutError of
        futures without an answer. ``poll``: lets the client call back."""
        # What was refused before, and may have been corrected since.
        poll(0)
        before, until = self.refusals, time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            try:
                return future.result(timeout=max(min(left, _SLICE_SECONDS), 0.0))
            except FutureTimeout:
                poll(0)
                if self.refusals > before and self.refused is not None:
                    raise KafkaException(self.refused) from None
                if left <= 0:
                    raise


class Watched(Consumer):
    """A consumer whose requests end as soon as the login is refused, with LoginRefused; else as a Consumer's,
    when their time is over."""

    def __init__(self, kafka: Kafka, settings: Mapping[str, Any]) -> None:
        self.noted = Noted(kafka, settings.get("error_cb"))
        # librdkafka looks for the group's coordinator unasked, and tells once, as an event, that it may not.
        self._group_denied: KafkaError | None = None
        super().__init__({**settings, "error_cb": self.noted})

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        named = {} if topic is None else {"topic": topic}
        ask = super().list_topics
        return self._asked("topics", lambda seconds: ask(**named, timeout=seconds), timeout)

    def get_watermark_offsets(
        self, partition: Any, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        ask = super().get_watermark_offsets
        return self._asked("offsets", lambda seconds: ask(partition, seconds, cached), timeout)

    def offsets_for_times(self, partitions: Any, timeout: float = -1) -> Any:
        ask = super().offsets_for_times
        return self._asked("offsets", lambda seconds: ask(partitions, timeout=seconds), timeout)

    def committed(self, partitions: Any, timeout: float = -1) -> Any:
        ask = super().committed
        what = "offsets of a group"
        return self._asked(what, lambda seconds: ask(partitions, timeout=seconds), timeout, of_group=True)

    def is_of_group(self, error: KafkaError) -> bool:
        """Whether it says that a right at the group is missing, which only requests for the group need. It is
        kept for them."""
        if error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            return False
        self._group_denied = error
        return True

    def check_login(self, what: str) -> None:
        """Raises LoginRefused if it is refused; Refused for a right that is missing."""
        if self.noted.refused is not None:
            raise self.noted.translated(what, KafkaException(self.noted.refused))

    def _asked(self, what: str, ask: Callable[[float], T], seconds: float, *, of_group: bool = False) -> T:
        """Asked again and again, each time for longer: a request is not told of a login that is refused. What
        was refused before, and may have been corrected since, is the reason only when its time is over."""
        self._listen()
        before = self.noted.refusals
        until, part = time.monotonic() + seconds, _FIRST_SECONDS
        while True:
            left = until - time.monotonic() if seconds >= 0 else part
            try:
                found = ask(min(part, left))
            except KafkaException as error:
                self._listen()
                is_last = error.args[0].code() not in _WAITS or left <= part
                if is_last or self.noted.refusals > before:
                    self.check_login(what)
                if of_group and self._group_denied is not None:
                    raise KafkaException(self._group_denied) from error
                if is_last:
                    raise
                part *= 2
            else:
                self.noted.answered()
                if of_group:
                    self._group_denied = None
                return found

    def _listen(self) -> None:
        """Let librdkafka call back; not while it may have records, of which one would be lost here."""
        if self.assignment():
            return
        event = self.poll(0)
        if event is not None and (error := event.error()) is not None and not self.is_of_group(error):
            self.noted(error)
