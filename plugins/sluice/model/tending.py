"""Is a part of a stream well that gives heartbeats: its producer, its queries? Values in, values out.

Such a part is judged by its process and by the newest heartbeat of its Kafka group. That a process runs says
nothing: one that hangs gives no beat, and one whose source does not answer says so in its beat.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sluice.model.json_record import JsonRecord
from sluice.model.process import ProcessState, ProcessStatus
from sluice.model.stream import Supervision
from sluice.model.verdicts import CALM, Diagnosis, Facts, Verdict, unless_flapping

# How often a part gives one while it is alive (spark_jobs.common.heartbeat).
BEAT_SECONDS = 5.0
# Where the first look leaves doubt, another one: longer after it than a heartbeat after the last, so that it
# shows what came meanwhile.
LOOKS = 2
LOOK_SECONDS = BEAT_SECONDS + 2
# The part's clock, the runtime's and the observer's may differ by as much.
CLOCK_SLACK_SECONDS = 2.0
MOST_DETAIL = 200


class State(StrEnum):
    """What a part says that it does."""

    # Its source does not answer, since it last did.
    CONNECTING = "connecting"
    # Its source answers: with news, or without.
    STREAMING = "streaming"
    SILENT = "silent"
    # Kafka has to catch up first.
    SENDING = "sending"
    # It looks for work by itself, and finds some or none.
    IDLE = "idle"
    WORKING = "working"


# Nothing is wrong, or not with the part: held by a person, or another one is at work in its place,
# which this runtime does not know.
QUIET = CALM | {Verdict.SUPERSEDED}
NOTHING_COMES = frozenset({State.SILENT, State.IDLE})


@dataclass(frozen=True)
class Beat(JsonRecord):
    """One heartbeat. ``at`` and ``since`` (when the state began): seconds since 1970, the part's clock.

    ``ends``: partition -> the next offset to be sent, or to be read. ``detail``: one line of the part's own.
    """

    at: float
    pid: int
    state: State
    since: float
    detail: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Look:
    """What was seen of a part at one moment: its process, and the newest beat of its group, whoever gave it
    (None where there never was one)."""

    process: ProcessStatus
    beat: Beat | None


def parse_beat(metadata: str, ends: Mapping[int, int]) -> Beat:
    """The beat in a group's metadata: ``{"at": ms, "pid": n, "state": …, "since": ms, "detail": …}``.

    ``ends``: the group's offsets. What is not printable in the detail becomes a blank, and it is cut. Raises
    ValueError for anything else than such an object; it says what lacks or is wrong.
    """
    try:
        data = json.loads(metadata)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error})") from error
    if not isinstance(data, dict):
        raise ValueError(f"a {type(data).__name__}, and no object")
    for name in ("at", "pid", "since"):
        # bool is an int to Python.
        if not isinstance(data.get(name), int | float) or isinstance(data[name], bool):
            raise ValueError(f"{name} is {data.get(name)!r}, and no number")
    state, detail = data.get("state"), data.get("detail", "")
    if not isinstance(state, str) or state not in State.__members__.values():
        raise ValueError(f"state is {state!r}, and none of {', '.join(State)}")
    if not isinstance(detail, str):
        raise ValueError(f"detail is {detail!r}, and no text")
    line = "".join(character if character.isprintable() else " " for character in detail)
    return Beat(
        at=data["at"] / 1000,
        pid=int(data["pid"]),
        state=State(state),
        since=data["since"] / 1000,
        detail=line[:MOST_DETAIL],
        ends=dict(ends),
    )


def tend(
    process: ProcessStatus | None,
    beat: Beat | None,
    now: float,
    policy: Supervision,
    facts: Facts,
    *,
    trouble: Mapping[str, str] | None = None,
    earlier: Look | None = None,
) -> Diagnosis:
    """How the part is at ``now`` (seconds since 1970).

    ``beat``: the newest of its group, whoever gave it; None where there never was one. ``trouble``: system ->
    why it did not answer; then nothing is said but that. ``earlier``: a look some BEAT_SECONDS before. Where
    the process had ended then too, a beat that has come since is somebody else's. Total: any values give a
    verdict, and none of WELL where something was not seen.
    """
    blind = _blindness(process, trouble or {})
    if process is None or blind:
        return Diagnosis(
            Verdict.UNOBSERVABLE,
            blind,
            identity=process.identity if process else None,
            evidence={"at": now, "trouble": dict(trouble or {})},
        )
    return _Tend(Look(process, beat), now, policy, facts, earlier).judge()


def _blindness(process: ProcessStatus | None, trouble: Mapping[str, str]) -> str:
    """Why nothing can be said; empty where something can."""
    reasons = [f"{system}: {reason}" for system, reason in sorted(trouble.items())]
    if process is None:
        reasons = reasons or ["the process was not looked at"]
    elif process.state is ProcessState.UNKNOWN:
        reasons.append(f"{process.sentence()}: its runtime does not know its state")
    elif process.is_alive and process.since is None:
        reasons.append(f"{process.sentence()}: its runtime does not say since when")
    elif reasons:
        reasons.append(process.sentence())
    return "; ".join(reasons)


class _Tend:
    """The rules over one look; the first that speaks decides."""

    def __init__(
        self, look: Look, now: float, policy: Supervision, facts: Facts, earlier: Look | None
    ) -> None:
        self.process = look.process
        self.beat = look.beat
        self.now = now
        self.policy = policy
        self.facts = facts
        self.earlier = earlier
        self.restarts = [at for at in facts.restarts if abs(now - at) <= policy.restart_window_seconds]

    def judge(self) -> Diagnosis:
        for rule in (self._held, self._ended, self._clock, self._unheard, self._stalled, self._cut_off):
            found = rule()
            if found:
                return found
        return self._well()

    def _held(self) -> Diagnosis | None:
        if self.facts.held is None:
            return None
        return self._say(Verdict.HELD, f"held {self.facts.held}; {self.process.sentence()}", True)

    def _ended(self) -> Diagnosis | None:
        if self.process.is_alive:
            return None
        ended = f"{self.process.sentence()}, exit status {self.process.exit_status}"
        if self.beat is not None and self._is_somebody_elses(self.beat):
            # What was started now would only wait for it.
            other = f"another one, process {self.beat.pid}, is at work in its place: {self._doing(self.beat)}"
            return self._say(Verdict.SUPERSEDED, f"{ended}; {other}", True)
        if self.process.state is ProcessState.BACKOFF:
            return self._say(Verdict.STARTING, f"{ended}; {self._last_beat()}", False)
        return self._ill(Verdict.DEAD, f"{ended}; {self._last_beat()}")

    def _clock(self) -> Diagnosis | None:
        """A beat from the future would look fresh for as long as the clocks differ."""
        ahead = self.beat.at - self.now if self.beat else 0.0
        if ahead <= max(CLOCK_SLACK_SECONDS, BEAT_SECONDS):
            return None
        return self._say(
            Verdict.UNOBSERVABLE,
            f"{self.process.sentence()}; its heartbeat is {ahead:.0f} s ahead of this clock: set the clocks",
            False,
        )

    def _unheard(self) -> Diagnosis | None:
        if self._is_own():
            return None
        age = self._age()
        text = f"{self.process.sentence()}, and it gave no heartbeat in the {age:.0f} s since it started"
        if age < self.policy.start_seconds:
            return self._say(Verdict.STARTING, text, False)
        return self._ill(
            Verdict.STALLED, f"{text} (it has {self.policy.start_seconds} s); {self._last_beat()}"
        )

    def _stalled(self) -> Diagnosis | None:
        beat = self._own()
        if self.now - beat.at <= self.policy.stall_seconds:
            return None
        # Not for certain: where Kafka was away, the beats come again with the next look.
        return self._ill(
            Verdict.STALLED,
            f"{self.process.sentence()}, and its last heartbeat was {self.now - beat.at:.0f} s ago "
            f"(patience {self.policy.stall_seconds} s): {self._doing(beat)}",
        )

    def _cut_off(self) -> Diagnosis | None:
        beat = self._own()
        seconds = self.now - beat.since
        if beat.state is not State.CONNECTING or seconds < self.policy.stall_seconds:
            return None
        return self._say(
            Verdict.CUT_OFF,
            f"{self.process.sentence()}, and its source has not answered for {seconds:.0f} s: "
            f"{self._doing(beat)}; it goes on asking, and no restart helps",
            True,
        )

    def _well(self) -> Diagnosis:
        beat = self._own()
        verdict = Verdict.IDLE if beat.state in NOTHING_COMES else Verdict.HEALTHY
        return self._say(verdict, f"{self.process.sentence()}: {self._doing(beat)}", True)

    def _ill(self, verdict: Verdict, sentence: str) -> Diagnosis:
        """A restart mends it, unless restarts did not. Never conclusive: it costs a second look."""
        return self._say(*unless_flapping(verdict, sentence, len(self.restarts), self.policy), False)

    def _age(self) -> float:
        """Seconds since the process started."""
        return max(self.now - (self.process.since or 0.0), 0.0)

    def _is_own(self) -> bool:
        """Whether the beat is this start's: not its predecessor's, nor somebody else's."""
        beat, since = self.beat, self.process.since or 0.0
        if beat is None or beat.at < since - CLOCK_SLACK_SECONDS:
            return False
        # A runtime elsewhere may not know the id that the process has for itself.
        return self.process.pid in (None, beat.pid)

    def _is_somebody_elses(self, beat: Beat) -> bool:
        """Whether the beat came after this process had ended."""
        earlier = self.earlier
        if earlier is None or earlier.process.is_alive or earlier.process.identity != self.process.identity:
            return False
        return earlier.beat is None or beat.at > earlier.beat.at

    def _own(self) -> Beat:
        if self.beat is None:
            raise ValueError("the part gave no heartbeat; ask _is_own first")
        return self.beat

    def _last_beat(self) -> str:
        if self.beat is None:
            return "there never was a heartbeat"
        ago = self.now - self.beat.at
        return f"the last heartbeat was process {self.beat.pid}'s, {ago:.0f} s ago: {self._doing(self.beat)}"

    def _doing(self, beat: Beat) -> str:
        detail = f" ({beat.detail})" if beat.detail else ""
        return f"{beat.state.value} for {max(self.now - beat.since, 0.0):.0f} s{detail}"

    def _say(self, verdict: Verdict, sentence: str, conclusive: bool) -> Diagnosis:
        return Diagnosis(
            verdict,
            sentence,
            identity=self.process.identity,
            evidence={
                "at": self.now,
                "process": self.process.to_json(),
                "beat": self.beat.to_json() if self.beat else None,
                "restarts": sorted(self.restarts),
                "held": self.facts.held,
                "trouble": {},
            },
            conclusive=conclusive,
        )
