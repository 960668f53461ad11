"""Shared by all commands: answers as text or JSON, and errors as one line with the right exit code."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.exceptions import TyperException

from core.common.errors import is_sentence
from core.common.refusals import reason
from core.evaluation.report.json_export import plain

BAD_INPUT, FAILURE = 2, 1
TRACEBACK = "PHILAB_TRACEBACK"  # set it to 1 to see where in the program an error happened
INTERRUPTED, READER_GONE = 130, 141  # as in shells: 128 plus the number of the signal
# A command that has said all there is to say, a question without an answer, a wrong option, a reader that is gone.
_LEFT_TO_MAIN = (typer.Exit, typer.Abort, TyperException, BrokenPipeError)
_OPTION_OF = {"target_epsilon": "epsilon", "scrub_recall": "recall"}  # settings whose option has another name


def _named(folder: str | None) -> str | None:
    """Refuse an empty name: it comes from a shell variable that was not set, and does not mean the default."""
    if folder is not None and not folder.strip():
        raise typer.BadParameter("the name of the folder is empty; give a name, or omit the option")
    return folder


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]
DataFolder = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder of runs and cohorts. Default: $PHILAB_DATA, or data/ in the checkout (if installed: here).",
        callback=_named,
    ),
]


class BadInput(ValueError):
    """An argument cannot be used. The message is a sentence."""


def check_folder(folder: Path) -> None:
    """Raise BadInput for a folder of --out that cannot be made, since something on its way is a file.

    Commands make a missing folder when they write: a refusal before that leaves nothing behind.
    """
    whole = folder.resolve()
    there = next(one for one in (whole, *whole.parents) if one.exists())
    if not there.is_dir():
        raise BadInput(f"--out: {there} is a file, not a folder.")


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """Exit with 2 for bad input and 1 for failures, each with one line on standard error.

    No traceback is printed, unless $PHILAB_TRACEBACK is set.
    """
    from pydantic import ValidationError

    try:
        with _traceback_if_asked():
            yield
    except _LEFT_TO_MAIN:
        raise
    except ValidationError as error:
        _leave(BAD_INPUT, _sentence(error))
    except OSError as error:
        from core.runs.integrity.disk import error_sentence
        from core.runs.store import DataFolderUnusable

        bad = isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError, DataFolderUnusable))
        _leave(BAD_INPUT if bad else FAILURE, error_sentence(error))
    except KeyboardInterrupt:
        _leave(INTERRUPTED, "Interrupted. Finished work is kept: run the same command again to resume.")
    except (UnicodeDecodeError, json.JSONDecodeError) as error:  # of a file that was given
        _leave(BAD_INPUT, str(error))
    except Exception as error:
        if is_sentence(error):
            _leave(BAD_INPUT if isinstance(error, (ValueError, LookupError)) else FAILURE, str(error))
        _leave(
            FAILURE,
            f"An unexpected error ({type(error).__name__}: {error}). Run the command again with {TRACEBACK}=1 to see "
            "where it happened.",
        )


@contextmanager
def _traceback_if_asked() -> Iterator[None]:
    """Print the traceback of any error to standard error if $PHILAB_TRACEBACK says so."""
    try:
        yield
    except _LEFT_TO_MAIN:
        raise
    except Exception:
        if os.environ.get(TRACEBACK, "").strip() not in ("", "0"):
            traceback.print_exc()
        raise


def _leave(code: int, message: str) -> None:
    print("Error: " + " ".join(message.split()), file=sys.stderr)
    raise typer.Exit(code)


def _sentence(error: Any) -> str:
    """The first problem in a pydantic error, in words, with its option."""
    first = error.errors()[0]
    message = reason(first)
    name = str(first["loc"][-1]) if first["loc"] else ""
    where = f"--{_OPTION_OF.get(name, name).replace('_', '-')}" if name else ""
    given = first.get("input")
    shown = f" (given: {given})" if where and isinstance(given, (int, float, str)) else ""
    return f"{where}: {message}{shown}" if where else message


def utf8(stream: TextIO) -> bool:
    """Whether this stream can write any character."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"


def answer(data: Any, text: str, *, as_json: bool) -> None:
    """Print `data` as JSON (∞ as "inf", NaN as null) or `text`."""
    escaped = not utf8(sys.stdout)  # JSON can escape what the terminal cannot write
    print(json.dumps(plain(data), ensure_ascii=escaped, indent=2) if as_json else text)


def say(message: str) -> None:
    """Print progress to standard error; standard output contains only the answer."""
    print(message, file=sys.stderr, flush=True)
