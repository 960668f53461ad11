"""A dictionary that forgets, for what a server remembers of each job or run as long as it runs."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Newest(OrderedDict[Key, Value]):
    """A dictionary with at most `most` entries: a further one makes it forget the one that was set first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > self._most:
            self.popitem(last=False)
