"""`python -m core`: everything the app can do, without the app.

Exit code 0; 2 for bad input (one line on standard error, nothing written); 1 for a failure. `--json` answers with one
JSON document. Heavy modules are imported by the commands that need them, so that help comes at once.
"""

from __future__ import annotations

import sys

import typer
from typer.exceptions import TyperException

from core.cli import asking, defences, extracting, ledger, making, report, training, words
from core.cli.output import BAD_INPUT

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help="PHI Leak Lab")
for command in (
    *(making.corpus, training.train, training.sweep, asking.runs, asking.audit, asking.prompt),
    extracting.extract,
    ledger.ledger,
    report.report,
    defences.defences,
    words.words,
    *(making.account, making.pretrain, making.bench, making.demo),
):
    app.command()(command)


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. A wrong option is one line on standard error, like any bad input."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return app(arguments or ["--help"], prog_name="python -m core", standalone_mode=False) or 0
    except TyperException as error:
        print(f"Error: {' '.join(error.format_message().split())}", file=sys.stderr)
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
