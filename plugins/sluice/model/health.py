"""Is a stream well? A pure function of what was seen of it: the rules, in the order of their weight.

What a rule needs to know is worked out in :mod:`sluice.model.view`; here is what follows from it. The words
of :mod:`sluice.model.verdicts` are given on, so that who judges imports from here alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.model.losses import shrunk
from sluice.model.process import SUPERSEDED_STATUS, ProcessState
from sluice.model.samples import Sample
from sluice.model.series import ordered
from sluice.model.stream import Supervision
from sluice.model.verdicts import (
    ALARMING,
    ASKING,
    CALM,
    RESTARTABLE,
    WELL,
    Diagnosis,
    Facts,
    Verdict,
    unless_flapping,
)
from sluice.model.view import View, offsets

__all__ = [
    "ALARMING",
    "ASKING",
    "CALM",
    "RESTARTABLE",
    "WELL",
    "Diagnosis",
    "Facts",
    "Verdict",
    "judge",
]


def judge(samples: Sequence[Sample], policy: Supervision, facts: Facts) -> Diagnosis:
    """How the stream is at the last of ``samples``; they are oldest first, and may come from earlier looks.

    Total: any samples give a verdict, and none of WELL where the last one has trouble. Samples whose clock
    contradicts the last one's are left out.
    """
    if not samples:
        return Diagnosis(Verdict.UNOBSERVABLE, "nothing was observed")
    blind = _blindness(samples[-1])
    if blind:
        now = samples[-1]
        return Diagnosis(
            Verdict.UNOBSERVABLE,
            blind,
            token=now.published.token if now.published else None,
            identity=now.process.identity if now.process else None,
            evidence={"at": now.at, "trouble": dict(now.trouble), "samples": len(samples)},
        )
    return _Judge(View(ordered(samples), policy, facts.restarts), facts.held).judge()


def _blindness(now: Sample) -> str | None:
    """Why the sample says nothing of the stream; None where every system answered."""
    reasons = [f"{system}: {reason}" for system, reason in sorted(now.trouble.items())]
    if now.process is None:
        reasons = reasons or ["the process was not looked at"]
    elif now.process.state is ProcessState.UNKNOWN:
        reasons.append(f"{now.process.sentence()}: its runtime does not know its state")
    elif reasons:
        reasons.append(now.process.sentence())
    if now.begins is None or now.ends is None:
        reasons = reasons or ["the topic was not looked at"]
    return "; ".join(reasons) or None


class _Judge:
    """The rules over one view; the first that speaks decides."""

    def __init__(self, view: View, held: str | None) -> None:
        self.view = view
        self.held = held

    def judge(self) -> Diagnosis:
        for rule in (
            self._held,
            self._recreated,
            self._lost,
            self._ended,
            self._unowned,
            self._nothing_to_do,
            self._stalled,
            self._at_risk,
            self._unknown,
            self._falling_behind,
        ):
            found = rule()
            if found:
                return found
        return self._moving()

    def _held(self) -> Diagnosis | None:
        if self.held is None:
            return None
        # What can still be saved is said aloud; what has happened is part of the reason for a hold.
        if self.view.risk:
            return self._say(Verdict.AT_RISK, f"held {self.held}; {self.view.risk}", True)
        found = self.view.recreation or self.view.loss
        return self._say(
            Verdict.HELD,
            "; ".join(filter(None, [f"held {self.held}", found, self._process(), self._waiting()])),
            True,
        )

    def _recreated(self) -> Diagnosis | None:
        view = self.view
        if view.recreation is None:
            return None
        # A broker that has just come back may say less than it keeps, so offsets alone are looked at twice.
        certain = bool(view.other_id) or view.confirmed(lambda earlier: bool(shrunk(earlier)))
        return self._say(
            Verdict.RECREATED,
            f"{view.recreation}: give the stream a new table, or restore the topic",
            certain,
        )

    def _lost(self) -> Diagnosis | None:
        if self.view.loss is None:
            return None
        return self._say(
            Verdict.LOST,
            f"{self.view.loss}: give the stream a new table, put the files again, and raise the topic's "
            "retention.ms",
            True,
        )

    def _ended(self) -> Diagnosis | None:
        view = self.view
        if view.process.is_alive:
            return None
        ended = f"{self._process()}, exit status {view.process.exit_status}"
        by_successor = view.process.exit_status == SUPERSEDED_STATUS
        if by_successor and (not view.lag or view.is_recent(view.patience)):
            return self._say(
                Verdict.SUPERSEDED,
                f"{ended}: owner {view.token} has taken over; {self._waiting()}",
                True,
            )
        if view.process.state is ProcessState.BACKOFF:
            return self._say(Verdict.STARTING, f"{ended}; {self._waiting()}", False)
        certain = view.confirmed(
            lambda earlier: (
                earlier.process is not None
                and earlier.process.identity == view.process.identity
                and not earlier.process.is_alive
            )
        )
        return self._ill(Verdict.DEAD, f"{ended}; {self._waiting()}", certain)

    def _unowned(self) -> Diagnosis | None:
        view = self.view
        if view.is_owned:
            return None
        age = f"{self._process()}, and nobody has taken over in the {view.age:.0f} s since it started"
        if view.age < view.policy.start_seconds:
            return self._say(Verdict.STARTING, f"{age}; {self._waiting()}", False)
        certain = view.confirmed(lambda earlier: view.was_unowned(earlier))
        return self._ill(Verdict.STALLED, f"{age} (it has {view.policy.start_seconds} s)", certain)

    def _nothing_to_do(self) -> Diagnosis | None:
        if self.view.lag:
            return None
        if self.view.rates and self.view.rates[1]:
            return self._say(Verdict.HEALTHY, f"everything is published; {self._speed()}", True)
        return self._say(
            Verdict.IDLE, f"everything is published, and nothing arrives; {self._process()}", True
        )

    def _stalled(self) -> Diagnosis | None:
        view = self.view
        stuck = {p: seconds for p, seconds in view.stuck.items() if seconds >= view.patience}
        if not stuck:
            return None
        where = offsets({p: view.now.first_unread(p) for p in stuck})
        still = "nothing was" if len(stuck) == len(view.unread) else f"nothing of {len(stuck)} partitions was"
        return self._ill(
            Verdict.STALLED,
            f"{self._process()}, and {still} published for {max(stuck.values()):.0f} s "
            f"(patience {view.patience:.0f} s) from {where} on; {self._waiting()}",
            True,
        )

    def _at_risk(self) -> Diagnosis | None:
        if self.view.risk is None:
            return None
        # Whether it moves at all may take longer to see.
        return self._say(Verdict.AT_RISK, f"{self.view.risk}; {self._speed()}", self._is_fresh())

    def _unknown(self) -> Diagnosis | None:
        view = self.view
        if view.has_known_start or view.is_recent(view.patience):
            return None
        return self._say(
            Verdict.UNOBSERVABLE,
            f"{self._waiting()}, and nothing was published in the {view.still:.0f} s that were observed: too "
            f"short to say whether it stands still (patience {view.patience:.0f} s)",
            False,
        )

    def _falling_behind(self) -> Diagnosis | None:
        growth = self.view.growth
        if growth is None or not self.view.is_far_behind:
            return None
        seconds, more = growth
        return self._say(
            Verdict.FALLING_BEHIND,
            f"{self._waiting()}, {more} more than {seconds:.0f} s ago: it never catches up at this rate; "
            f"{self._speed()}",
            True,
        )

    def _moving(self) -> Diagnosis:
        view = self.view
        if not view.is_far_behind or view.rates is None:
            return self._say(Verdict.HEALTHY, f"{self._waiting()}; {self._speed()}", self._is_fresh())
        came, went = view.rates
        left = f"about {view.lag / (went - came):.0f} s to go" if went > came else "no end in sight yet"
        return self._say(Verdict.CATCHING_UP, f"{self._waiting()}, {left}; {self._speed()}", self._is_fresh())

    def _ill(self, verdict: Verdict, sentence: str, conclusive: bool) -> Diagnosis:
        """A restart mends it, unless restarts did not."""
        view = self.view
        if view.risk:
            sentence = f"{sentence}; {view.risk}"
        verdict, sentence = unless_flapping(verdict, sentence, len(view.restarts), view.policy)
        return self._say(verdict, sentence, conclusive)

    def _is_fresh(self) -> bool:
        """Whether it moved so recently that only a look much later could say something else."""
        return self.view.is_recent(self.view.patience / 2)

    def _process(self) -> str:
        return self.view.process.sentence()

    def _waiting(self) -> str:
        return f"{self.view.lag} records wait" if self.view.lag else "no record waits"

    def _speed(self) -> str:
        view = self.view
        owner = f"owner {view.token}" if view.token is not None else "no owner"
        if view.rates is None:
            return f"{owner}; {self._process()}"
        came, went = view.rates
        return f"{came:.0f} records/s arrive, {went:.0f} records/s are published by {owner}"

    def _say(self, verdict: Verdict, sentence: str, conclusive: bool) -> Diagnosis:
        view = self.view
        return Diagnosis(
            verdict,
            sentence,
            lag=view.lag,
            rate=view.rates[1] if view.rates else None,
            arrivals=view.rates[0] if view.rates else None,
            token=view.token,
            identity=view.process.identity,
            evidence=view.evidence() | {"held": self.held},
            conclusive=conclusive,
        )
