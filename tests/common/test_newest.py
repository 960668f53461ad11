"""What a server remembers does not grow with the number of its jobs."""

from __future__ import annotations

from core.common.newest import Newest


def test_the_first_is_forgotten_and_the_newest_kept():
    kept: Newest[str, int] = Newest(2)
    kept["a"], kept["b"] = 1, 2
    kept["a"] = 3  # set again, it is still the one that was set first
    assert dict(kept) == {"a": 3, "b": 2}
    assert kept.setdefault("c", 4) == 4 and dict(kept) == {"b": 2, "c": 4}
    assert kept.setdefault("c", 5) == 4
