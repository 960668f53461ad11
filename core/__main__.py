"""`python -m core`: everything the app can do, on the command line.

Exit code 0; 2 for bad input (one line on standard error, nothing written); 1 for a failure. With
$PHILAB_TRACEBACK=1 an error also prints where in the program it happened. `--json` prints one JSON
document. Commands import heavy modules only when they need them, so that help is shown at once.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

import typer
from typer.exceptions import TyperException

from core.cli import (
    attacks,
    corpora,
    defences,
    delete_upload,
    ledger,
    release,
    report,
    runs,
    training,
    verify,
    vocabulary,
)
from core.cli.output import BAD_INPUT, INTERRUPTED, READER_GONE, utf8
from core.cli.store.commands import app as store

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help="PHI Leak Lab")
for command in (
    *(corpora.corpus, training.train, training.sweep, runs.runs, runs.audit, runs.prompt),
    attacks.extract,
    attacks.shadows,
    ledger.ledger,
    delete_upload.delete_upload,
    release.notes,
    report.report,
    report.teaching,
    report.findings,
    verify.verify,
    verify.refresh,
    runs.utility,
    runs.step,
    verify.prove,
    runs.forget,
    defences.defences,
    vocabulary.words,
    *(corpora.account, corpora.pretrain, corpora.bench, corpora.demo),
):
    app.command()(command)
app.add_typer(store, name="store")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. A wrong option gives one line on standard error, like any bad input."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and not utf8(stream):
            stream.reconfigure(errors="backslashreplace")  # a terminal without ε shows \u03b5 instead of failing
    try:
        code = app(arguments or ["--help"], prog_name="python -m core", standalone_mode=False) or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discard the rest of the output
        return READER_GONE
    except (KeyboardInterrupt, typer.Abort):
        print("Error: Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except TyperException as error:
        print(f"Error: {' '.join(error.format_message().split())}", file=sys.stderr)
        return BAD_INPUT


def as_a_worker() -> None:
    """Restart this program with the environment of the job engine's workers, unless it has it already.

    Benchmarks need it, because the allocator and OpenMP read their settings only once, when a process starts.
    """
    from core.jobs.cluster import ENVIRONMENT

    if not ENVIRONMENT.keys() <= os.environ.keys():
        os.execve(sys.executable, sys.orig_argv, {**ENVIRONMENT, **os.environ})  # noqa: S606 — this same program


if __name__ == "__main__":
    if sys.argv[1:2] == ["bench"]:
        as_a_worker()
    sys.exit(main())
