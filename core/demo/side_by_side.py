"""Work on several runs at a time: each in a separate process with its share of the cores.

What uses one core alone, such as drawing noise, tokenizing or an attack's bootstrap, then leaves no other core idle.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from core.pipeline.progress_lines import Say


class _InTurn(Executor):
    """Does each piece of work at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # the future raises it when its result is asked for
            future.set_exception(error)
        return future


@contextmanager
def workers(processes: int) -> Iterator[Executor]:
    """An executor that does this number of pieces of work at a time; with 1, they are done in this process.

    Work that has not begun when the block ends by an error is dropped. Functions and their arguments are pickled.
    """
    if processes == 1:
        yield _InTurn()
        return
    threads = max(1, (os.cpu_count() or 1) // processes)
    with ProcessPoolExecutor(processes, get_context("spawn"), _limit_threads, (threads,)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _limit_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


class Prefixed:
    """Says each line with a name before it, so that one sees which of several pieces of work it is about."""

    def __init__(self, say: Say, name: str) -> None:
        self._say, self._name = say, name

    def __call__(self, text: str) -> None:
        """Say this line."""
        self._say(f"{self._name}: {text.strip()}")


def reason(error: BaseException) -> str:
    """Why a piece of work failed, as the end of a sentence."""
    if isinstance(error, BrokenProcessPool):
        return "its process was ended from outside, perhaps for lack of memory"
    return str(error)
