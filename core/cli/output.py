"""What every command shares: answers as text or JSON, and errors as one line with the right exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TextIO

import typer

from core.evaluation.report.json_export import plain

BAD_INPUT, FAILURE = 2, 1
INTERRUPTED, READER_GONE = 130, 141  # as shells count them: 128 and the number of the signal
_OPTION_OF = {"target_epsilon": "epsilon", "scrub_recall": "recall"}  # settings that have another name as an option


def _named(folder: str | None) -> str | None:
    """An empty name is a variable of the shell that was not set, not the usual folder."""
    if folder is not None and not folder.strip():
        raise typer.BadParameter("the name of the folder is empty; give one, or leave the option out")
    return folder


AsJson = Annotated[bool, typer.Option("--json", help="Answer with one JSON document on standard output.")]
DataFolder = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Where runs and cohorts live. Default: $PHILAB_DATA, or data/ beside the program.",
        callback=_named,
    ),
]


class BadInput(ValueError):
    """Something the caller typed cannot be used. The text is a sentence."""


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """Exit 2 for bad input and 1 for failures, each with one line on standard error and no traceback."""
    from pydantic import ValidationError

    try:
        yield
    except ValidationError as error:
        _leave(BAD_INPUT, _sentence(error))
    except (ValueError, LookupError) as error:
        _leave(BAD_INPUT, str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        from core.runs.integrity.disk import error_sentence
        from core.runs.store import DataFolderUnusable

        bad = isinstance(error, (FileNotFoundError, DataFolderUnusable))
        _leave(BAD_INPUT if bad else FAILURE, error_sentence(error))
    except KeyboardInterrupt:
        _leave(INTERRUPTED, "Interrupted. What was done so far is kept: the same command goes on from there.")
    except Exception as error:
        if type(error).__name__ == "ModelNotFound":  # its class would import torch
            _leave(BAD_INPUT, str(error))
        _leave(FAILURE, str(error) or type(error).__name__)


def _leave(code: int, message: str) -> None:
    print("Error: " + " ".join(message.split()), file=sys.stderr)
    raise typer.Exit(code)


def _sentence(error: Any) -> str:
    """The first complaint of a pydantic error in plain words, with the option it is about."""
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ")
    name = str(first["loc"][-1]) if first["loc"] else ""
    where = f"--{_OPTION_OF.get(name, name).replace('_', '-')}" if name else ""
    given = first.get("input")
    shown = f" (given: {given})" if where and isinstance(given, (int, float, str)) else ""
    return f"{where}: {message}{shown}" if where else message


def utf8(stream: TextIO) -> bool:
    """Can this stream take any character?"""
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"


def answer(data: Any, text: str, *, as_json: bool) -> None:
    """Print `data` as JSON (∞ as "inf", NaN as null) or `text`."""
    escaped = not utf8(sys.stdout)  # JSON has escapes of its own for what a terminal cannot write
    print(json.dumps(plain(data), ensure_ascii=escaped, indent=2) if as_json else text)


def say(message: str) -> None:
    """A word of progress for people; standard output stays clean for the answer."""
    print(message, file=sys.stderr, flush=True)
