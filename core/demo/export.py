"""Copies finished runs to `assets/demo`: whole, with their weights, or with figures only.

The folder is the same for every run, so runs can be exported one by one while a sweep goes on.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from core.attacks.membership.decision import LOSS
from core.common.folders import building, publish
from core.common.formatting import REPRODUCIBLE
from core.demo.plan import SIZES, spec_of
from core.evaluation.membership.summary import membership
from core.evaluation.registry import on_card
from core.evaluation.sweep.limit_measures import losses_by_patient
from core.runs.card import CARD_FILE, write_card
from core.runs.events import CANCEL_FILE, EVENTS_FILE, STATUS_FILE
from core.runs.figures_only import LEFT_OUT, FiguresOnly, excerpt
from core.runs.integrity.checksums import FILE as CHECKSUMS
from core.runs.ledger.entries import refuse_public_seed
from core.runs.run import Run
from core.runs.store import Workspace
from core.runs.tables import FIGURES_ONLY_FILE, table_version, write_table
from core.spec import CLINICAL, OPENING, ModelKind, RunSpec

UNDER_WAY = (STATUS_FILE, EVENTS_FILE, CANCEL_FILE)  # progress of an audit, not its results
_OPENS_WITH = next(size for size, preset in SIZES.items() if preset == OPENING)  # its first seed keeps its tables
WEIGHTS: dict[ModelKind, tuple[float | None, ...]] = {"gpt2": (None, 8.0, 1.0), "distilbert": (None,)}  # of seed 0
_LONG = 500  # rows; in a shorter table, dictionary encoding of floats takes less space
_MOST_STEPS = 60  # rows of `history` that a run with figures only keeps, besides those at the end of an epoch


def weighted_specs() -> list[RunSpec]:
    """The runs that are shipped with their weights and a full audit."""
    return [spec_of(_OPENS_WITH, kind, epsilon, 0) for kind, chosen in WEIGHTS.items() for epsilon in chosen]


def keeps_tables(spec: RunSpec) -> bool:
    """Whether a run is shipped with all its tables: controls that other runs need, and those that pages open with."""
    opening = spec_of(_OPENS_WITH, spec.model.kind, None, 0)
    shared = spec.is_base and spec.model.base == CLINICAL
    return shared or (spec.corpus == opening.corpus and spec.training.seed == 0)


def export_run(workspace: Workspace, spec: RunSpec, out: Path) -> list[Path]:
    """Copy one finished run to `out`, with its cohort and its full audit, unless they are there. Returns new folders.

    A run whose figures were made again since (`python -m core refresh`) is copied again, but one that is there with all
    its tables is not replaced by its figures only.

    Raises:
        LookupError: There is no such run.
        ValueError: It was trained on imported notes.
    """
    run = workspace.find(spec)
    if run is None:
        raise LookupError(f"Run {spec.run_id} cannot be exported: it is not finished.")
    if spec.corpus.imported is not None:
        raise ValueError(f"Run {run.id} was trained on imported notes, which are never shipped.")
    weighted = run.id in {one.run_id for one in weighted_specs()}
    made = []
    final, tables = out / "runs" / run.id, weighted or keeps_tables(spec)
    whole = final.exists() and not (final / FIGURES_ONLY_FILE).exists()
    if not final.exists() or (_version(final) != _version(run.folder) and (tables or not whole)):
        with building(final.parent, private=False) as beside:
            copy_run(run, beside / run.id, weights=weighted, tables=tables)
            publish_packed(beside / run.id, final)
        made.append(final)
    cohort = out / "corpora" / spec.corpus.digest()
    if not cohort.exists():
        workspace.corpus(spec.corpus)  # stores it
        with building(cohort.parent, private=False) as beside:
            stored = workspace.corpus_folder(spec.corpus)  # it may be a shipped one
            assert stored is not None  # just stored, if it was nowhere
            shutil.copytree(stored, beside / cohort.name, ignore=shutil.ignore_patterns(CHECKSUMS))
            publish_packed(beside / cohort.name, cohort)
        made.append(cohort)
    audited, stored_audit = out / "audits" / run.id, workspace.audit(run.id).folder
    if weighted and stored_audit.exists() and not (stored_audit / STATUS_FILE).exists() and not audited.exists():
        with building(audited.parent, private=False) as beside:
            shutil.copytree(stored_audit, beside / run.id, ignore=shutil.ignore_patterns(*UNDER_WAY))
            publish_packed(beside / run.id, audited)
        made.append(audited)
    return made


def _version(folder: Path) -> int:
    return table_version(folder / "tables", "metrics")


def publish_packed(made: Path, final: Path) -> None:
    """Compress the tables of a copy and rename it to its final place, in place of what is there."""
    for table in made.rglob("*.parquet"):
        pack(table)
    publish(made, final, lambda folder: False)  # what is there is older


def copy_run(run: Run, folder: Path, *, weights: bool, tables: bool = True) -> None:
    """Copy a finished run's folder without its event log, and without its weights or large tables unless they ship.

    Checksums are left out because the tables are compressed again here. A private run with a public seed is exported
    for teaching only: it is refused if its notes were imported, and its card says that ε is shown, not promised.
    """
    public = run.noise_source == "public seed"
    if public and run.spec.corpus.imported is not None:
        assert run.privacy is not None  # its noise has a source, so it is private
        refuse_public_seed(run.id, run.privacy)
    left_out = [EVENTS_FILE, CHECKSUMS, *([] if weights else ["model"])]
    if not tables:
        left_out += [f"{name}.parquet" for name in LEFT_OUT]
    shutil.copytree(run.folder, folder, ignore=shutil.ignore_patterns(*left_out))
    if not tables and not run.figures_only:
        write_excerpts(run, folder)
    if public and REPRODUCIBLE not in (folder / CARD_FILE).read_text(encoding="utf-8").lower():
        write_card(folder, run.spec, run.privacy, run.metrics, on_card())  # the card is from an older version


def write_excerpts(run: Run, folder: Path) -> None:
    """Write what a run with figures only has instead of its large tables into its copy in `folder`.

    Examples of generated texts, the held-out notes' losses summed by patient (for the share of the gain), the loss
    attack's figures by note and by patient (for limits), and a thinned `history`.
    """
    tables, audit = folder / "tables", run.spec.audit
    generations, history = run.table("generations"), run.table("history")
    kept, hits = excerpt(generations, run.table("hits"))
    write_table(tables, "examples", kept)
    write_table(tables, "example_hits", hits)
    scores = run.table("scores")
    scores = scores[scores["attack"] == LOSS]
    write_table(tables, "heldout_losses", losses_by_patient(scores))
    figures = membership(scores, resamples=audit.bootstrap, seed=audit.seed)
    figures = figures[(figures["length"] == "all") & (figures["level"] != "admission")]
    write_table(tables, "membership", figures)
    write_table(tables, "history", thinned(history))
    FiguresOnly(generations=len(generations), history=len(history)).write(folder)


def thinned(history: pd.DataFrame) -> pd.DataFrame:
    """At most about `_MOST_STEPS` of the steps, evenly spaced, with the last one and all that end an epoch."""
    if len(history) <= _MOST_STEPS:
        return history
    chosen = set(range(0, len(history), -(-len(history) // _MOST_STEPS))) | {len(history) - 1}
    ends = history.index[history["eval_loss"].notna()]
    return history.loc[sorted(chosen | set(ends))].reset_index(drop=True)


def pack(path: Path) -> None:
    """Compress a table again without losing a bit."""
    (_pack_long if pq.read_metadata(path).num_rows > _LONG else _pack_short)(path)


def _pack_long(path: Path) -> None:
    """Byte-stream split for columns of floats, what differs from the row before for ids, then zstd."""
    table = pq.read_table(path)
    floats = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    ids = [field.name for field in table.schema if field.name.endswith("_id") and _is_text(field.type)]
    encodings = {**dict.fromkeys(floats, "BYTE_STREAM_SPLIT"), **dict.fromkeys(ids, "DELTA_BYTE_ARRAY")}
    others = [name for name in table.schema.names if name not in encodings]
    options = {"use_dictionary": others, "column_encoding": encodings}
    pq.write_table(table, path, compression="zstd", compression_level=19, **options)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _pack_short(path: Path) -> None:
    """Without descriptions of the columns where they can be left out: they would be most of the file."""
    table = pq.read_table(path)
    about = {key: value for key, value in (table.schema.metadata or {}).items() if key != b"pandas"}
    bare = table.replace_schema_metadata(about)
    if (table.to_pandas().dtypes != bare.to_pandas().dtypes).any():  # pandas' own types, such as Int64, need it
        bare = table
    _write_short(bare, path, store_schema=False)
    if not pq.read_schema(path).equals(bare.schema, check_metadata=True):  # types that Parquet itself does not have
        _write_short(bare, path, store_schema=True)


def _write_short(table: pa.Table, path: Path, *, store_schema: bool) -> None:
    options = {"compression": "zstd", "compression_level": 19, "write_statistics": False, "use_dictionary": False}
    with pq.ParquetWriter(path, table.schema, store_schema=store_schema, **options) as writer:
        writer.write_table(table)
        if not store_schema:
            writer.add_key_value_metadata(table.schema.metadata or {})
