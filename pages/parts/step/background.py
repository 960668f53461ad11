"""Work of seconds that every session looks at, in a thread, with a bar while it goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import streamlit as st

from pages.parts.common.phi_text import literal
from pages.parts.session import models
from pages.parts.session.failures import failure

Made = TypeVar("Made")
Report = Callable[[int, int], None]
REFRESH_SECONDS = 0.2


class Background(Generic[Made]):
    """One piece of work: `work` is called with a function that takes (done, of how many)."""

    def __init__(self, work: Callable[[Report], Made]) -> None:
        self.made: Made | None = None
        self.error = ""
        self._work = work
        self._ended = True
        self._done, self._total = 0, 1
        self._lock = threading.Lock()

    @property
    def begun(self) -> bool:
        """Whether the work goes on now or is done."""
        return not self._ended or self.made is not None

    def wait(self, doing: str) -> Made | None:
        """What the work makes; until then a bar with `doing` and the count. None, with a sentence, if it fails."""
        self._start()
        bar = st.empty()
        while not self._ended:
            if self._total:
                bar.progress(self._done / self._total, f"{doing}: {self._done} of {self._total} …")
            else:
                bar.progress(0.0, "Waiting for another computation …")
            time.sleep(REFRESH_SECONDS)
        bar.empty()
        if self.error:
            st.error(literal(self.error, 600), icon=":material/error:")
        return self.made

    def _start(self) -> None:
        """Begin, unless it has begun or is there; after an error, begin again."""
        with self._lock:
            if self.begun:
                return
            self._ended, self.error, self._done = False, "", 0
            threading.Thread(target=self._run, name="step-gradients", daemon=True).start()

    def _run(self) -> None:
        try:
            self.made = self._work(self._report)
        except Exception as error:  # whoever looks reads the sentence: a thread has nobody to raise to
            self.error = failure(error, "The computation")
        finally:
            self._ended = True

    def _report(self, done: int, total: int) -> None:
        self._done, self._total = done, total


@contextmanager
def computing(report: Report) -> Iterator[None]:
    """One computation at a time (`models.turn`); `report` gets (0, 0) while it waits for its turn."""
    report(0, 0)
    with models.turn():
        report(0, 1)
        yield
