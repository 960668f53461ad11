"""Messages between an engine and workers that share no folder with it. Their scheduler passes them on.

A worker sends the events of its job under the engine's topic. The engine asks a worker to stop by setting a flag that
has the key of the job's task.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from distributed import Client, get_worker

from core.runs.events import Event, Listener

ASK_SECONDS = 0.5
Message = dict[str, Any]  # an event, with the `key` of the job's task, and the `worker`, which dask adds


def teller(topic: str, key: str) -> Listener:
    """For a task: a function that sends an event of the job to the engine. It does not wait for the scheduler."""
    worker = get_worker()

    def tell(event: Event) -> None:
        worker.log_event(topic, {**event, "key": key})

    return tell


def asked_to_stop(key: str) -> Callable[[], bool]:
    """For a task: whether the engine has asked it to stop. Asks at most twice a second, and never waits for an answer.

    A scheduler that does not answer has not asked: a worker that has lost its scheduler ends by itself.
    """
    worker = get_worker()
    asked, asking, found = 0.0, False, False

    async def ask() -> None:
        nonlocal asking, found
        with contextlib.suppress(Exception):  # each transport has exceptions of its own
            found = found or bool(await worker.scheduler.event_is_set(name=key))
        asking = False

    def stop() -> bool:
        nonlocal asked, asking
        now = time.monotonic()
        if not (found or asking) and now - asked > ASK_SECONDS:
            asked, asking = now, True
            worker.loop.add_callback(ask)
        return found

    return stop


def listen(client: Client, topic: str, listener: Callable[[Message], None]) -> None:
    """For an engine: have `listener` called with each event, in a thread of the client that it must not hold up."""
    client.subscribe_topic(topic, lambda event: listener(dict(event[1])))


def ask_to_stop(client: Client, key: str) -> None:
    """For an engine: ask the worker that has the task `key` to stop. It does not wait for the scheduler."""
    if client.loop is not None and client.scheduler is not None:  # else it is closed, and no worker has a task of it
        client.loop.add_callback(client.scheduler.event_set, name=key)
