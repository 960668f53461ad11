"""Which errors carry a sentence for people, which show a fault in the program, and the one that is no failure."""

from __future__ import annotations

from types import TracebackType

_PACKAGES = ("core", "pages", "bench")
_PLAIN = (ValueError, LookupError, RuntimeError)  # those, not their subclasses: KeyError("split") is no sentence


class Cancelled(Exception):
    """`should_stop` ended the work. A run leaves nothing behind; an audit keeps all finished attacks."""


def is_sentence(error: BaseException) -> bool:
    """Whether the message of an error is a sentence that this program wrote for the people who use it.

    That holds for the program's own exceptions, and for a plain ValueError, LookupError or RuntimeError that its code
    raised. The same exceptions from a library, and a KeyError or TypeError from anywhere, are faults. A built-in
    function that the program calls leaves no trace, so the ValueError of `int("x")` counts as a sentence.
    """
    if not str(error):
        return False
    if _is_ours(type(error).__module__):
        return True
    return type(error) in _PLAIN and _is_ours(_raised_in(error.__traceback__))


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in _PACKAGES


def _raised_in(trace: TracebackType | None) -> str:
    """Name of the module in which an error was raised; empty if it has no traceback."""
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return str(trace.tb_frame.f_globals.get("__name__", ""))
