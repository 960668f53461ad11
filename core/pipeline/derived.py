"""What is derived from a run's other tables, its metrics and its model card: computed and written in one way.

Training writes them when a run is complete, `repair` when they are damaged, `refresh` when their figures are outdated.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from core.corpus.tables import Corpus
from core.evaluation import registry
from core.pipeline.quick_audit import figures
from core.runs.card import CARD_FILE, write_card
from core.runs.integrity.checksums import Checksums, sha256
from core.runs.integrity.verify import cohort_problems, run_problems
from core.runs.run import Run, RunBroken, file_problems, read_promise, read_stored_spec, read_vocabulary
from core.runs.store import Workspace
from core.runs.tables import ADDED, READING, SCHEMAS, read_table, write_table
from core.spec import RunSpec

METRICS, CARD = "tables/metrics.parquet", CARD_FILE
DERIVED = {METRICS, CARD}
_NAMES = [name for name in SCHEMAS if name != "metrics"]


def current_version(spec: RunSpec) -> int:
    """Version of the metrics table that is computed now for a run of this spec."""
    return registry.version(imported=spec.corpus.imported is not None)


def control_tables(base: Run) -> dict[str, pd.DataFrame]:
    """The tables of the public base model's run that the figures of other runs are compared with."""
    return {name: base.table(name) for name in [*_NAMES, *filter(base.has_table, ADDED)]}


def write_derived(folder: Path, corpus: Corpus, control: Mapping[str, pd.DataFrame] | None) -> None:
    """Compute metrics and card of the run in `folder` from its other tables, and write both.

    `control` are `control_tables` of its base run; None for the base run itself.
    """
    stored = read_stored_spec(folder)
    spec = stored.spec
    corpus = corpus.without(spec.without)
    own = _NAMES if spec.vocabulary is None else [*_NAMES, READING]
    own = [*own, *(name for name in ADDED if (folder / "tables" / f"{name}.parquet").exists())]
    tables = {name: read_table(folder / "tables", name, folder.name) for name in own}
    entries = None if spec.vocabulary is None else read_vocabulary(folder)
    metrics = figures(spec, corpus, tables, control, entries)
    write_table(folder / "tables", "metrics", metrics, version=current_version(spec))
    mechanism = read_promise(folder, spec, stored.schema) if spec.privacy.private else None
    write_card(folder, spec, mechanism, metrics, registry.on_card())


def rebuild(folder: Path, workspace: Workspace) -> None:
    """Metrics and card of a stored run, from its other tables, its cohort and its control, all of which are checked.

    Checksums are the caller's part. Raises RunBroken, a sentence, where something it would be made of is damaged, and
    LookupError or ValueError where the control or the cohort is not there.
    """
    spec = read_stored_spec(folder).spec
    broken = [name for name, _ in file_problems(folder, spec) if name not in DERIVED]
    if broken:
        raise RunBroken(f"its file {broken[0]} is damaged as well")
    control = None
    if not spec.is_base:
        base = workspace.control(spec)  # an older version may have given it another name
        _trusted(base.id, {file: told for file, told in run_problems(base.folder).items() if file not in DERIVED})
        control = control_tables(base)
    cohort = workspace.corpus_folder(spec.corpus)
    if cohort is not None:
        _trusted(f"cohort {cohort.name}", cohort_problems(cohort))
        workspace.forget(cohort.name)  # what is in memory may be older
    write_derived(folder, workspace.corpus(spec.corpus, store=False), control)


def _trusted(name: str, problems: dict[str, str]) -> None:
    for file, problem in problems.items():
        raise RunBroken(f"it is computed from {name}, in which {file} {problem}")


def differing(folder: Path) -> list[str] | None:
    """Derived files that are not what the run's checksums say, in order; None without checksums."""
    taken = Checksums.read(folder)
    if taken is None:
        return None
    found = []
    for name in sorted(DERIVED & taken.sha256.keys()):
        try:
            same = sha256(folder / name) == taken.sha256[name]
        except OSError:
            same = False
        found += [] if same else [name]
    return found
