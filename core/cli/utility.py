"""The command `utility`: what a run is good for, on its hospital's notes or on labelled sentences of your own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.cli.output import AsJson, BadInput, DataFolder, answer, errors_as_sentences, say
from core.cli.runs import RunId

if TYPE_CHECKING:
    from core.runs.run import Run


def utility(
    run: RunId,
    ner: Annotated[
        Path | None,
        typer.Option(
            "--ner",
            metavar="DIR",
            help="Folder with train.tsv and test.tsv in IOB form, such as BC5CDR's: entities are tagged in these "
            "sentences, and nothing is stored.",
        ),
    ] = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Measure entity extraction, inference and texts of a run of an earlier version, and store the figures with it."""
    with errors_as_sentences():
        from core.pipeline.utility import add
        from core.runs.store import Workspace

        workspace = Workspace(data)
        found = workspace.run(run)
        if ner is not None:
            _sentences(found, ner, as_json=as_json)
            return
        say(f"{found.id}: using the model")
        done = add(found, workspace)
        metrics = workspace.run(run).metrics
        shown = metrics[metrics["metric"].str.partition(":")[0].isin(_keys())]
        told = "Measured and stored." if done else "It had been measured before."
        table = shown.to_string(index=False, float_format=lambda value: f"{value:.4g}")
        answer(
            {"run": found.id, "stored": done, "figures": shown.to_dict("records")}, f"{table}\n{told}", as_json=as_json
        )


def _keys() -> set[str]:
    from core.evaluation.figures.utility import UTILITY_FIGURES

    return {one.key for one in UTILITY_FIGURES}


def _sentences(run: Run, folder: Path, *, as_json: bool) -> None:
    """Score the run and the public base model on the same sentences."""
    from core.models.build import load
    from core.pipeline.utility import entity_score

    if not run.has_model:
        raise BadInput(f"Run {run.id} has tables but no weights, so it cannot tag anything.")
    models = {"run": run.model}
    if not run.spec.is_base:
        models["base"] = lambda: load(run.spec.model)
    found = {}
    for arm, loaded in models.items():
        say(f"{run.id}: tagging with {'the model' if arm == 'run' else 'the public base model, the control'}")
        found[arm] = entity_score(loaded(), folder)
    lines = [
        f"{arm}: F1 {one.f1.value:.3f} ({one.f1.low:.3f} to {one.f1.high:.3f}), precision {one.precision:.3f}, "
        f"recall {one.recall:.3f}; {one.entities:,} entities in {one.judged:,} sentences; "
        f"{one.learned:,} labelled sentences"
        for arm, one in found.items()
    ]
    answer({"run": run.id, **{arm: asdict(one) for arm, one in found.items()}}, "\n".join(lines), as_json=as_json)
