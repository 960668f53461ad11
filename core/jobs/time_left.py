"""When a job will end: the time left in all its stages, estimated again with every event of its log.

The stage under way counts by what it took so far, the more the further it is; later stages by their expected seconds,
corrected by how fast this job has been. The estimate moves smoothly, so that the time left falls. It rises only when
the job is clearly slower than expected, and then `slower` names the stage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.jobs.times.costs import CONTROL, Stage
from core.jobs.times.expected import PAUSE_SECONDS, expected_stages, stage_key
from core.jobs.work import Work
from core.runs.events import Event

OWN_PACE = 0.1  # share of a stage at which its own pace counts as much as the expectation
PRIOR_SECONDS = 15.0  # so much of a job must be over before its speed counts as much as the expectation
# Exponent: how far a job's speed so far carries over to its later stages, which use the machine otherwise.
CARRIED = 0.5
SMOOTH_SECONDS = 8.0  # time constant with which the shown end follows the estimate
SLOWEST = 0.5  # the time left falls at least at this rate while no rise is announced
RISE, RISE_SECONDS = 1.2, 5.0  # a change beyond this factor and these seconds is shown at once, a rise with its reason
KEPT = 0.8  # of its own estimate that a stage keeps while its count stands still, as at the end of an epoch
OVERDUE = 0.2  # share of the time it took so far that a stage without progress still needs after its expected end


class TimeLeft:
    """Follows one job's events. `ends` is its expected end in Unix seconds; None before it began, or without stages.

    Time in which nothing ran, between an interruption and the resumption, does not count: `started` moves on by it.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = list(stages)
        self._restart()

    def _restart(self) -> None:
        self.started: float | None = None
        self.ends: float | None = None
        self.slower = ""  # key of the stage because of which the end was last moved out; empty if it was not
        self._expected = {stage.key: stage.seconds for stage in self.stages}
        self._done: set[str] = set()
        self._measured: dict[str, float] = {}  # seconds of a stage that is still to come, as its control took them
        self._spent: list[tuple[float, float]] = []  # (seconds taken, seconds expected) of the finished stages
        self._last = -math.inf
        self._last_event: float | None = None
        self._over = ""  # the event with which the job ended, if it did
        self._interrupted = False  # until the next stage begins
        self._begin("", 0.0)

    def _begin(self, key: str, now: float) -> None:
        self._key, self._began = key, now
        self._share, self._phase, self._counted = 0.0, now, now
        self._first_share: float | None = None
        self._phases = 0

    def read(self, event: Event) -> None:
        """Take in one event."""
        now = event.get("time")
        if now is None:
            return
        if event["event"] in ("done", "cancelled", "failed"):
            self.ends, self.slower = now, ""
            self._over, self._last_event = event["event"], now
            return
        key = stage_key(event)
        if self._over == "done":  # an audit that is made again
            self._restart()
        elif self._last_event is not None and self._is_resumed(key, now):
            self._resume(now, now - self._last_event)
        self._over, self._last_event = "", now
        if key is not None:
            self._next_stage(key, now)
        else:
            self._progress(event, now)
        self.at(now)

    def _is_resumed(self, key: str | None, now: float) -> bool:
        """Whether the job was interrupted before this event; every training begins with its first stage again."""
        assert self._last_event is not None
        begins_again = bool(self.stages) and key == self.stages[0].key and key in self._done
        return bool(self._over) or now - self._last_event >= PAUSE_SECONDS or begins_again

    def _resume(self, now: float, pause: float) -> None:
        """Leave out a pause, and what the stage that it interrupted took: it is not over."""
        if self.started is not None:
            self.started += pause
        self.ends, self.slower, self._last = None, "", now
        self._began, self._phase, self._counted = (at + pause for at in (self._began, self._phase, self._counted))
        self._interrupted = True

    def at(self, now: float) -> None:
        """Estimate the end again as of this time."""
        if self.started is None or not self.stages:
            return
        left = self._of_this_stage(now) + self._of_later_stages()
        fresh = now + left
        if self.ends is None:
            self.ends = fresh
        elif now > self._last:
            self._move(fresh, now)
        self._last = max(self._last, now)

    def _move(self, fresh: float, now: float) -> None:
        assert self.ends is not None
        shown, past = max(0.0, self.ends - now), now - self._last
        if fresh - now > RISE * shown + RISE_SECONDS:
            self.ends, self.slower = fresh, self._key
            return
        if RISE * (fresh - now) + RISE_SECONDS < shown:  # clearly faster: no need to wait
            self.ends = fresh
            return
        step = (1.0 - math.exp(-past / SMOOTH_SECONDS)) * (fresh - self.ends)
        self.ends = max(now, self.ends + min(step, SLOWEST * past))

    def _next_stage(self, key: str, now: float) -> None:
        if self.started is None:
            self.started = now
        interrupted, self._interrupted = self._interrupted, False
        if key == self._key:
            return
        if self._key and not interrupted:
            self._spent.append((now - self._began, self._expected.get(self._key, 0.0)))
            self._done.add(self._key)
            if self._key.startswith(f"{CONTROL}/"):  # the same stage of the run itself takes about as long
                self._measured[self._key.removeprefix(f"{CONTROL}/")] = now - self._began
        if self.slower and self.slower != key:
            self.slower = ""
        self._done.discard(key)
        self._begin(key, now)

    def _progress(self, event: Event, now: float) -> None:
        match event["event"]:
            case "step":
                share, before = event["step"] / event["steps"], (event["step"] - 1) / event["steps"]
            case "progress_in_step":
                before = (event["step"] - 1) / event["steps"]
                share = before + event["done"] / max(1, event["total"]) / event["steps"]
            case "progress":
                share, before = event["done"] / max(1, event["total"]), 0.0
            case _:
                return
        if share < self._share:  # the stage counts through something else now
            self._phases += 1
            self._phase, self._first_share = now, share
        elif self._first_share is None:
            self._first_share = before  # above 0 in a training that resumes from a checkpoint
        self._share, self._counted = share, now

    def _of_this_stage(self, now: float) -> float:
        expected = self._measured.get(self._key, self._expected.get(self._key, 0.0))
        taken = now - self._began
        first = self._first_share
        if first is None or self._share <= first:
            return expected - taken if taken < expected else OVERDUE * taken
        own = (self._counted - self._phase) / (self._share - first) * (1.0 - self._share)
        own = max(own - (now - self._counted), KEPT * own)
        if self._phases or self._counts_again():
            left = expected - taken if taken < expected else OVERDUE * taken
            return max(left, own)
        weight = (self._share - first) / (self._share - first + OWN_PACE)
        return weight * own + (1.0 - weight) * expected * (1.0 - self._share)

    def _counts_again(self) -> bool:
        """Whether the stage counts through several things in turn, so that the end of a count is not its own."""
        return self._key.startswith("attack: ") or self._key.endswith("audit: utility")

    def _of_later_stages(self) -> float:
        places = [place for place, stage in enumerate(self.stages) if stage.key == self._key]
        later = self.stages[places[0] + 1 :] if places else self.stages
        speed, measured = self._speed(), self._measured
        left = (stage for stage in later if stage.key not in self._done)
        return sum(measured.get(stage.key, speed * stage.seconds) for stage in left)

    def _speed(self) -> float:
        """Factor by which this job takes longer than expected, judged by what is over."""
        taken: float
        expected: float
        taken, expected = map(sum, zip(*self._spent, (0.0, 0.0), strict=True))
        if self._first_share is not None and not self._phases and not self._counts_again():
            taken += self._counted - self._began
            expected += (self._share - self._first_share) * self._expected.get(self._key, 0.0)
        return ((taken + PRIOR_SECONDS) / (expected + PRIOR_SECONDS)) ** CARRIED


def time_left_of(work: Work) -> TimeLeft:
    """What estimates the end of a job that begins now."""
    spec = work.spec()
    return TimeLeft([] if spec is None else expected_stages(spec, work.workspace, is_audit=work.is_audit))
