"""The list of these tables, where they are stored, and how a missing one is made.

`measured/<run id>/<name, spaces as hyphens>.parquet` of the data folder, or of a shared one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from core.common.files import make_folder, replaced
from core.demo.export import pack
from core.findings.from_weights import (
    abstract_entities,
    energies,
    name_layers,
    population_sizes,
    samples,
    unnamed_others,
    white_box,
    written_links,
    written_names,
)
from core.findings.labelled_abstracts import labelled_abstracts
from core.runs.run import Run
from core.runs.store import Workspace

if TYPE_CHECKING:
    from core.attacks.registry import Report

FOLDER = "measured"


@dataclass(frozen=True)
class Measurement:
    """How one table is made.

    Attributes:
        columns: The table's columns with their pandas types.
        make: Computes it from a run's models and notes. It calls the report between batches.
        seconds: About how long that takes on one core.
        of_abstracts: Whether the labelled abstracts are read (`core.findings.labelled_abstracts`): `make` then gets
            their folders by name as well, after the report.
    """

    columns: Mapping[str, str]
    make: Callable[..., pd.DataFrame]
    seconds: float
    of_abstracts: bool = False


MEASUREMENTS: Mapping[str, Measurement] = {
    abstract_entities.NAME: Measurement(
        abstract_entities.COLUMNS, abstract_entities.abstract_entities, 120.0, of_abstracts=True
    ),
    energies.NAME: Measurement(energies.COLUMNS, energies.energies, 600.0),
    name_layers.NAME: Measurement(name_layers.COLUMNS, name_layers.name_layers, 30.0),
    population_sizes.NAME: Measurement(population_sizes.COLUMNS, population_sizes.population_sizes, 420.0),
    samples.NAME: Measurement(samples.COLUMNS, samples.samples, 150.0),
    unnamed_others.NAME: Measurement(unnamed_others.COLUMNS, unnamed_others.unnamed_others, 300.0),
    white_box.NAME: Measurement(white_box.COLUMNS, white_box.white_box, 600.0),
    written_links.NAME: Measurement(written_links.COLUMNS, written_links.written_links, 4_800.0),
    written_names.NAME: Measurement(written_names.COLUMNS, written_names.written_names, 3_000.0),
}


def file_of(run_id: str, name: str, workspace: Workspace) -> Path | None:
    """The file of a table that was made of this run, here or among the shipped ones."""
    places = (_place(root, run_id, name) for root in (workspace.root, *workspace.shared))
    return next((place for place in places if place.is_file()), None)


def _place(root: Path, run_id: str, name: str) -> Path:
    return root / FOLDER / run_id / f"{name.replace(' ', '-')}.parquet"


def make(run: Run, name: str, workspace: Workspace, report: Report) -> Path:
    """Make a table from the run's weights and store it in the data folder."""
    from core.pipeline.full_audit import check_attackable, target_of

    check_attackable(run)
    wanted = MEASUREMENTS[name]
    folders = (labelled_abstracts(workspace),) if wanted.of_abstracts else ()
    frame = wanted.make(target_of(run, workspace), report, *folders)
    path = _place(workspace.root, run.id, name)
    make_folder(path.parent)
    with replaced(path) as beside:
        frame[list(wanted.columns)].astype(dict(wanted.columns)).to_parquet(beside, index=False)
        pack(beside)
    return path
