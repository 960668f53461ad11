"""The shipped demonstration: the runs it consists of, and how they get into `assets/demo`.

`python -m core demo` trains what is missing (seed by seed, so that the first part is already a whole sweep; then the
runs that Defences compares) and runs the full audit on the runs that keep their weights. Then it copies every finished
run: always its tables, and its weights and full audit only for the runs that Home and the Playground open with.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from core.common.formatting import REPRODUCIBLE
from core.evaluation.registry import on_card
from core.pipeline.full_audit import audit
from core.pipeline.training_run import execute
from core.runs.card import CARD_FILE, write_card
from core.runs.events import CANCEL_FILE, EVENTS_FILE, STATUS_FILE
from core.runs.integrity.checksums import FILE as CHECKSUMS
from core.runs.ledger.entries import refuse_public_seed
from core.runs.run import Run
from core.runs.store import DEMO, Workspace
from core.spec import ABSTRACTS, CORPUS_PRESETS, DefenceSpec, ModelKind, ModelSpec, PrivacySpec, RunSpec, recipe

KINDS: tuple[ModelKind, ...] = ("gpt2", "distilbert")
EPSILONS: tuple[float | None, ...] = (None, 8.0, 1.0, 2.0, 5.0, 10.0, 0.5)  # None = no privacy; the first two open Home
SEEDS = (0, 1, 2)
UNDER_WAY = (STATUS_FILE, EVENTS_FILE, CANCEL_FILE)  # progress of an audit, not its results
_LONG = 500  # rows; in a shorter table, dictionary encoding of floats takes less space
WEIGHTS: tuple[tuple[ModelKind, float | None], ...] = (("gpt2", None), ("gpt2", 8.0), ("distilbert", None))


def demo_spec(kind: ModelKind, epsilon: float | None, seed: int) -> RunSpec:
    """One run of the sweep: the classroom cohort with the measured recipe."""
    privacy = PrivacySpec(target_epsilon=epsilon)
    return RunSpec(
        corpus=CORPUS_PRESETS["classroom"],
        model=ModelSpec(kind=kind, base=ABSTRACTS),
        privacy=privacy,
        training=recipe(kind, privacy, seed=seed),
    )


def demo_specs() -> list[RunSpec]:
    """The whole sweep, seed by seed."""
    return [demo_spec(kind, epsilon, seed) for seed in SEEDS for kind in KINDS for epsilon in EPSILONS]


def weighted_specs() -> list[RunSpec]:
    """The runs of the sweep that are shipped with their weights and a full audit."""
    return [demo_spec(kind, epsilon, SEEDS[0]) for kind, epsilon in WEIGHTS]


def defended_specs() -> list[RunSpec]:
    """Runs that Defences compares besides the sweep: GPT-2 at the first seed, on changed notes and per patient."""
    plain, private = (demo_spec("gpt2", epsilon, SEEDS[0]) for epsilon in (None, 8.0))
    by_patient = private.privacy.model_copy(update={"unit": "patient"})
    return [
        plain.model_copy(update={"defence": DefenceSpec(deduplicate=True)}),
        plain.model_copy(update={"defence": DefenceSpec(scrub_recall=0.95)}),
        private.model_copy(update={"privacy": by_patient}),
    ]


def main(data: Path | str | None = None, json: bool = False) -> None:
    """Train and audit whatever is missing from the sweep, then rewrite `assets/demo`."""
    workspace = Workspace(data, shared=())  # shipped runs do not count as trained
    specs = [*demo_specs(), *defended_specs()]
    for number, spec in enumerate(specs, start=1):
        run = execute(spec, workspace)
        print(f"{number}/{len(specs)} {run.id}", file=sys.stderr, flush=True)
    for spec in weighted_specs():
        audit(execute(spec, workspace), workspace)
    export(workspace)


def export(workspace: Workspace, out: Path = DEMO) -> list[str]:
    """Replace `out` by the sweep's finished runs, their controls and their cohort. Returns the run ids."""
    specs = [*demo_specs(), *defended_specs()]
    wanted = {spec.run_id: spec for spec in [*specs, *(spec.base_spec() for spec in specs)]}
    runs = [run for spec in wanted.values() if (run := workspace.find(spec)) is not None]
    with_weights = {spec.run_id for spec in weighted_specs()}
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".demo-") as temporary:
        made = Path(temporary) / "demo"
        for run in runs:
            _copy_run(run, made / "runs" / run.id, weights=run.id in with_weights)
            cohort = run.spec.corpus.digest()
            shutil.copytree(
                workspace.root / "corpora" / cohort,
                made / "corpora" / cohort,
                ignore=shutil.ignore_patterns(CHECKSUMS),
                dirs_exist_ok=True,
            )
            audited = workspace.audit(run.id).folder
            if run.id in with_weights and audited.exists():
                shutil.copytree(audited, made / "audits" / run.id, ignore=shutil.ignore_patterns(*UNDER_WAY))
        for table in made.rglob("*.parquet"):
            _pack(table)
        if out.exists():
            shutil.rmtree(out)
        made.rename(out)
    return [run.id for run in runs]


def _copy_run(run: Run, folder: Path, *, weights: bool) -> None:
    """Copy a finished run's folder without its event log, and without its weights unless they are shipped.

    Checksums are left out because the tables are compressed again here. A private run with a public seed is exported
    for teaching only: it is refused if its notes were imported, and its card says that ε is shown, not promised.
    """
    public = run.noise_source == "public seed"
    if public and run.spec.corpus.imported is not None:
        assert run.privacy is not None  # its noise has a source, so it is private
        refuse_public_seed(run.id, run.privacy)
    left_out = [EVENTS_FILE, CHECKSUMS] if weights else [EVENTS_FILE, CHECKSUMS, "model"]
    shutil.copytree(run.folder, folder, ignore=shutil.ignore_patterns(*left_out))
    if public and REPRODUCIBLE not in (folder / CARD_FILE).read_text(encoding="utf-8").lower():
        write_card(folder, run.spec, run.privacy, run.metrics, on_card())  # the card is from an older version


def _pack(path: Path) -> None:
    """Compress a table again without losing a bit: byte-stream split for long columns of floats, then zstd."""
    table = pq.read_table(path)
    floats = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    others = [name for name in table.schema.names if name not in floats]
    split = {"use_byte_stream_split": floats, "use_dictionary": others} if table.num_rows > _LONG else {}
    pq.write_table(table, path, compression="zstd", compression_level=19, **split)
