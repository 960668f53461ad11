"""Writes docs/reference/command-line.md, every command with its options: `python -m docs._site.command_line`.

The text is that of `--help`, so the page cannot say anything else than the program. A test compares them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from core.__main__ import app
from core.common.program import PROGRAM

WIDTH = 100
PAGE = PROGRAM / "docs" / "reference" / "command-line.md"
HEADING = """# Command line

Every command of `python -m core` with its options, as `--help` gives them. The README beside
`docs/` has examples, and [Your own notes](../own-data.md) the steps of an import. Written by
`python -m docs._site.command_line`.

Every command takes `--json`, which prints one JSON document to standard output. Those that use the
data folder take `--data DIR`. Without it, the folder is `$PHILAB_DATA`. Without that, too, it is
`data/` in the checkout, or for an installed wheel `data/` in the current folder. N is a whole
number, X any number. Exit codes: 0 done, 2 wrong input, 1 failure, 130 interrupted, 141 the reader
of the output is gone.
"""
SAID_ONCE = ("--help", "--json", "--data")
KINDS = {int: "N", float: "X", str: "TEXT"}


def document() -> str:
    """The page as Markdown."""
    program = get_command(app)
    assert isinstance(program, TyperGroup)
    return "\n".join([HEADING, *(line for name, one in _commands(program) for line in _section(name, one))])


def _commands(group: TyperGroup, before: str = "") -> Iterator[tuple[str, TyperCommand]]:
    """Every command by its full name, those of a group after one another."""
    for name, one in group.commands.items():
        if isinstance(one, TyperGroup):
            yield from _commands(one, f"{before}{name} ")
        elif isinstance(one, TyperCommand):
            yield f"{before}{name}", one


def _section(name: str, command: TyperCommand) -> Iterator[str]:
    yield from (f"## {name}", "", textwrap.fill(command.help or "", WIDTH, break_on_hyphens=False), "")
    rows = [_row(one) for one in command.params if not set(one.opts) & set(SAID_ONCE)]
    if rows:
        yield from ("| option | default | what it does |", "|---|---|---|", *rows, "")


def _row(parameter: Any) -> str:
    """A row of the table: an argument by its name in capitals, an option with what it takes."""
    if parameter.param_type_name == "argument":
        named = f"`{(parameter.metavar or parameter.name).upper()}`"
    elif parameter.is_flag:
        named = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    else:
        takes = parameter.metavar or KINDS.get(parameter.type_descriptor.annotation, "TEXT")
        named = f"`{parameter.opts[0]} {takes}`"
    return f"| {named} | {_default(parameter)} | {_cell(parameter.help or '')} |"


def _default(parameter: Any) -> str:
    """The default; `–` if there is none or the text names it."""
    if parameter.required:
        return "needed"
    silent = parameter.default is False or parameter.default in (None, "", ())
    return "–" if silent or callable(parameter.default) else f"`{parameter.default}`"


def _cell(text: str) -> str:
    """A help text on one line, with nothing that would end a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(document(), encoding="utf-8")
