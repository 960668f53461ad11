"""A waiting job starts when as many jobs have ended as wait before it, and one more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.jobs.times.starts import seconds_to_starts


def test_one_after_the_other():
    assert seconds_to_starts([30.0], [60.0, 5.0, 10.0]) == [30.0, 90.0, 95.0]
    assert seconds_to_starts([30.0], []) == []


def test_two_at_a_time():
    assert seconds_to_starts([30.0, 100.0], [50.0, 10.0, 40.0]) == [30.0, 80.0, 90.0]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.lists(st.integers(1, 20), max_size=6))
def test_as_a_clock_that_hands_out_jobs_each_second(left, expected):
    running, queue, starts, now = list(left), list(expected), [], 0
    while queue:
        while queue and 0 in running:
            running[running.index(0)] = queue.pop(0)
            starts.append(now)
        running, now = [max(0, one - 1) for one in running], now + 1
    assert seconds_to_starts(left, expected) == starts
