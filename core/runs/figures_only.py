"""Runs with figures only: shipped without their large tables, so that the repository stays small.

Such a run has a file `figures-only.json`. It keeps settings, promise, card, metrics and canaries. Instead of the tables
`scores`, `generations`, `hits` and `utility` it has excerpts (`core.runs.tables.FIGURES_ONLY`), and `history` may have
lost rows, or be left out as well. Whatever needs a table that was left out gets a `TableMissing`, and its sentence says
so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pandas as pd
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from core.common.files import replace_text
from core.runs.tables import FIGURES_ONLY, FIGURES_ONLY_FILE, UTILITY, readable
from core.spec import RunSpec

LEFT_OUT = ("scores", "generations", "hits", UTILITY)
EXAMPLES = 2  # attempts of each prompt that are kept


class Tables(Protocol):
    """A run (`core.runs.run.Run`, which needs this module)."""

    @property
    def figures_only(self) -> bool:
        """Whether its large tables were left out."""

    def table(self, name: str) -> pd.DataFrame:
        """One of its tables."""


class FiguresOnly(BaseModel):
    """What was left out of a run: its figures come from this many `generations`, and `history` had this many rows.

    `further` names the tables that this copy lacks in addition to `LEFT_OUT`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    generations: int
    history: int
    further: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> FiguresOnly | None:
        """That of the run in `folder`; None if it has none, or one that cannot be read."""
        try:
            return cls.model_validate_json((folder / FIGURES_ONLY_FILE).read_bytes())
        except (OSError, ValueError):
            return None

    def write(self, folder: Path) -> None:
        """Write it into a run's folder, which makes the run one with figures only."""
        replace_text(folder / FIGURES_ONLY_FILE, self.model_dump_json(indent=1, exclude_defaults=True))


NEEDED = tuple(name for name, field in FiguresOnly.model_fields.items() if field.is_required())  # keys of the file


def schemas_of(folder: Path, spec: RunSpec) -> Mapping[str, pa.Schema]:
    """The tables that the run in `folder` must have, with their columns."""
    usual = readable(folder / "tables", spec.vocabulary is not None)
    if not (folder / FIGURES_ONLY_FILE).exists():
        return usual
    stored = FiguresOnly.read(folder)
    left_out = (*LEFT_OUT, *(stored.further if stored else ()))
    return {name: schema for name, schema in (usual | FIGURES_ONLY).items() if name not in left_out}


def leave_out(folder: Path, name: str) -> None:
    """Remove a further table from a copy with figures only. Raises ValueError for any other run."""
    stored = FiguresOnly.read(folder)
    if stored is None:
        raise ValueError(f"{folder.name} is no copy with figures only")
    stored.model_copy(update={"further": (*stored.further, name)}).write(folder)
    (folder / "tables" / f"{name}.parquet").unlink()


def examples(run: Tables) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The first `EXAMPLES` attempts of each prompt and the hits in them; every run has them.

    They are examples to read. Shares and counts come from the metrics, which count all attempts.

    Returns:
        (generations, hits) with the columns of these tables; hits by whole value alone.
    """
    if run.figures_only:
        return run.table("examples"), run.table("example_hits")
    return excerpt(run.table("generations"), run.table("hits"))


def excerpt(generations: pd.DataFrame, hits: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The first `EXAMPLES` attempts of each prompt, and the hits by whole value in them."""
    first = generations.groupby("prompt_id", sort=False).head(EXAMPLES).reset_index(drop=True)
    within = hits["generation_id"].isin(first["generation_id"]) & (hits["rule"] == "value")
    return first, hits[within].reset_index(drop=True)
