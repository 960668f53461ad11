"""Events of trainings and audits as lines of text, for commands: what is done now, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable

from core.common.formatting import promised_text
from core.runs.events import Event, Listener

Say = Callable[[str], None]
SAY_SECONDS = 2.0


def training_lines(
    say: Say, *, stage: str = "{}", every: float = SAY_SECONDS, clock: Callable[[], float] = time.monotonic
) -> Listener:
    """A listener to a training: tells each stage at once, and a step at most `every` seconds, the last one always.

    `stage` is how a stage's message is written, with `{}` in its place.
    """
    said = clock() - every

    def tell(event: Event) -> None:
        nonlocal said
        if event["event"] == "stage":
            say(stage.format(event["message"]))
        elif event["event"] == "step" and (clock() - said > every or event["step"] == event["steps"]):
            said = clock()
            loss = "–" if event["loss"] is None else f"{event['loss']:.3f}"
            spent = "" if event["epsilon"] is None else f", ε {promised_text(event['epsilon'])}"
            say(f"  step {event['step']}/{event['steps']}, loss {loss}{spent}, {event['eta_seconds']:.0f} s left")

    return tell


def audit_lines(say: Say) -> Listener:
    """A listener to a full audit: tells each attack, its progress, and an outcome other than done."""

    def tell(event: Event) -> None:
        if event["event"] == "attack":
            say(f"[{event['number']}/{event['of']}] {event['attack']}")
        elif event["event"] == "progress" and event["eta_seconds"] is not None:
            say(f"  {event['done']} of {event['total']}, {event['eta_seconds']:.0f} s left")
        elif event["event"] == "outcome" and event["state"] != "done":
            say(f"  {event['state']}: {event['message']}")

    return tell
