"""What a page says about work in a thread that failed."""

from __future__ import annotations

import logging

from core.common.errors import Cancelled, is_sentence
from core.runs.integrity.disk import error_sentence

log = logging.getLogger(__name__)


def failure(error: Exception, what: str) -> str:
    """The error's sentence if it has one, else that `what` stopped unexpectedly. The log gets the traceback.

    Call it where the error is handled.
    """
    if not isinstance(error, Cancelled):
        log.exception("%s failed", what)
    if is_sentence(error) or isinstance(error, OSError):
        return error_sentence(error)
    return (
        f"{what} stopped because of an unexpected error ({type(error).__name__}). "
        "Try again; if it happens again, tell the server's administrator."
    )
