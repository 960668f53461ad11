"""People who click and read, and servers that draw one page at a time: simulated, and exactly in the mean.

Each person reads for a random time with mean `think`, then asks for a page that takes `work` processor seconds; the
pages that are being drawn share a server's processor equally, as threads share Python's interpreter. This is a closed
network with one processor-sharing station. Its mean times have an exact recursion (mean value analysis: Reiser and
Lavenberg 1980), which the simulation is tested against; percentiles need the simulation.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

WARM_UP = 0.2  # share of the answers that is left out, until the server is in its usual state


def exact_mean(people: int, think: float, work: float) -> tuple[float, float]:
    """(mean seconds of an answer, share of the time that the server is busy), by mean value analysis."""
    waiting, seconds, rate = 0.0, work, 0.0
    for number in range(1, people + 1):
        seconds = work * (1 + waiting)
        rate = number / (think + seconds)
        waiting = rate * seconds
    return seconds, min(1.0, rate * work)


def answers(
    people: int, think: float, work: Sequence[float], *, asked: int, rng: np.random.Generator, poll: float = 0.0
) -> np.ndarray:
    """Seconds of simulated answers, (asked · (1 − WARM_UP),).

    Args:
        people: Of one server.
        think: Mean seconds between an answer and the next click (exponential).
        work: Processor seconds of pages; each click draws one.
        asked: How many answers to simulate.
        rng: Source of randomness.
        poll: Share of the server's processor that goes to the timers of pages, in [0, 1).
    """
    pages = np.asarray(work) / (1 - poll)
    thinking = list(rng.exponential(think, people))
    heapq.heapify(thinking)
    # A page that begins when each one has had `served` seconds of the processor ends when each has had `served` + work.
    drawing: list[tuple[float, float]] = []  # when it ends, in seconds served to each; when it began
    found: list[float] = []
    now, served = 0.0, 0.0
    while len(found) < asked:
        ends = (drawing[0][0] - served) * len(drawing) if drawing else np.inf
        begins = thinking[0] - now if thinking else np.inf
        step = max(0.0, min(ends, begins))
        now, served = now + step, served + (step / len(drawing) if drawing else 0.0)
        if begins <= ends:
            heapq.heappop(thinking)
            heapq.heappush(drawing, (served + float(rng.choice(pages)), now))
        else:
            _, since = heapq.heappop(drawing)
            found.append(now - since)
            heapq.heappush(thinking, now + float(rng.exponential(think)))
    return np.array(found[int(WARM_UP * asked) :])
