"""Writes the exercises and their key as Markdown, with every number from the shipped runs.

The templates in `templates/` have a paragraph or a list item a line; here lines are wrapped.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from core.common.files import replace_text
from core.common.formatting import delta_text
from core.evaluation import wording
from core.evaluation.teaching.exercises import HANDOUT, Exercises, Figure
from core.evaluation.teaching.shipped import EIGHT, ONE, PLAIN

SHEETS = ("exercises", "key")
WIDTH = 100


def sheets(exercises: Exercises) -> dict[str, str]:
    """The Markdown of both sheets by name: `exercises` and `key`."""
    given = {"all": exercises, "handout": HANDOUT, "runs": {"plain": PLAIN, "eight": EIGHT, "one": ONE}}
    return {name: wrapped(_templates.get_template(f"{name}.md.j2").render(given)) for name in SHEETS}


def write(exercises: Exercises, folder: Path) -> list[Path]:
    """Write both sheets into a folder; returns their files."""
    files = []
    for name, text in sheets(exercises).items():
        files.append(folder / f"{name}.md")
        replace_text(files[-1], text)
    return files


def wrapped(markdown: str) -> str:
    """The same document with lines of at most WIDTH characters. Tables and headings keep theirs."""
    lines: list[str] = []
    markdown = re.sub(r"(?<=[εδσC]) = ", f"{wording.NBSP}={wording.NBSP}", markdown)
    for line in markdown.splitlines():
        mark = re.match(r"( *)(?:\d+\. |- )?", line)
        assert mark is not None  # the pattern matches an empty string
        if len(line) <= WIDTH or line.lstrip().startswith(("|", "#")):
            lines.append(line)
        else:
            rest = " " * len(mark[0])
            lines += textwrap.wrap(line, WIDTH, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _figure(figure: Figure, digits: int) -> str:
    return f"{figure.value:.{digits}f} ({figure.low:.{digits}f} to {figure.high:.{digits}f})"


def _signed(figure: Figure) -> str:
    """A difference with signs, in three digits: two would round an end beside 0 to 0."""
    value, low, high = (f"{one:+.3f}".replace("-", "−") for one in (figure.value, figure.low, figure.high))
    return f"{value} ({low} to {high})"


def _share(figure: Figure) -> str:
    return f"{wording.percent(figure.value)} ({wording.percent(figure.low)} to {wording.percent(figure.high)})"


def _perplexity(figure: Figure) -> str:
    value, low, high = (wording.perplexity_text(one) for one in (figure.value, figure.low, figure.high))
    return f"{value} ({low} to {high})"


_templates = Environment(  # noqa: S701 — Markdown, not HTML, and of numbers alone
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_FORMATS = {
    "auc": lambda figure: _figure(figure, 3),
    "bits": "{:g}".format,
    "count": "{:,}".format,
    "delta": delta_text,
    "eps": lambda epsilon: f"{epsilon:,.0f}" if epsilon >= 100 else f"{epsilon:.3g}",
    "exact_odds": lambda model: "no limit" if model.mechanism is None else wording.right_of_100(model.exact),
    "four": "{:.4f}".format,
    "signed": _signed,
    "number": lambda value: f"{value:.10g}".replace("-", "−"),
    "odds": wording.right_of_100,
    "of_100": lambda chance: f"{100 * chance:.0f}",
    "percent": wording.percent,
    "plain": lambda share: f"{100 * share:.3g}{wording.NBSP}%",
    "perplexity": _perplexity,
    "share": _share,
    "share_of_100": "{:.3f}".format,
    "tenth": lambda share: f"{100 * share:.1f}{wording.NBSP}%",
    "three": "{:.3f}".format,
    "two": lambda value: f"{value:.2f}".replace("-", "−"),
    "two_digits": "{:.2g}".format,
}
_templates.globals.update(_FORMATS)
_templates.filters.update(_FORMATS)
