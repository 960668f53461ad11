"""The command `defences`: the same patients and attacks under each defence, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core.cli.output import AsJson, DataFolder, answer, errors_as_sentences, say
from core.cli.training import Cohort, Model
from core.common.formatting import figure_text

if TYPE_CHECKING:
    import pandas as pd

    from core.evaluation.defences.side_by_side import Defence
    from core.evaluation.sweep.sweeps import Sweep
    from core.runs.store import Workspace


def defences(
    model: Model = "gpt2",
    corpus: Cohort = "classroom",
    epsilon: Annotated[float, typer.Option(help="ε of the rows with DP.")] = 8.0,
    recall: Annotated[
        float, typer.Option(help="Share of identifiers that scrubbing finds, above 0 and at most 1.")
    ] = 0.95,
    detector: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What the output filter searches with, beside known values. Default: the cohort's detector; for a "
            "synthetic cohort, the shapes.",
        ),
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="First train what is missing: one run per defence, with seed 0.")
    ] = False,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Compare no defence, deduplication, scrubbing, DP per note and per patient, and an output filter."""
    with errors_as_sentences():
        from core.corpus.cohort_detector import cohort_detector
        from core.evaluation.defences.side_by_side import lineup, measured
        from core.phi.detector.engine import named
        from core.runs.store import Workspace

        searching = None if detector is None else named(detector)
        workspace = Workspace(data)
        compared = lineup(_sweep(workspace, model, corpus), epsilon=epsilon, recall=recall)
        searching = searching or cohort_detector(compared[0].spec.corpus)
        if train:
            _train(compared, workspace)
        table = measured(compared, workspace, searching)
        rows = table.to_dict("records")
        runs = {one.key: [run.id for run in one.runs(workspace.runs())] for one in compared}
        missing = {one.key: one.spec.run_id for one in compared if not runs[one.key]}
        described = {"table": rows, "runs": runs, "not_trained": missing, "filter_detector": searching.name}
        searches = f"The output filter searches with: {searching.name}, and known values. {searching.lacks}".rstrip()
        text = f"{_text(table, missing)}\n{searches}"
        answer(described, text, as_json=as_json)


def _sweep(workspace: Workspace, model: str, corpus: str) -> Sweep:
    """The sweep to compare within: existing runs of this model and cohort, else the measured recipe without runs."""
    from core.cli.settings import audit_spec, model_spec, stored_corpus
    from core.evaluation.defences.side_by_side import settings
    from core.evaluation.sweep.sweeps import Sweep, sweeps_of
    from core.spec import CLINICAL, PrivacySpec

    cohort, start = stored_corpus(corpus, workspace), model_spec(model, "tiny", CLINICAL)
    for sweep in settings(sweeps_of(workspace.runs())):
        if (sweep.corpus, sweep.model) == (cohort, start):
            return sweep
    return Sweep(cohort, start, audit_spec(cohort, None), PrivacySpec(), None, None, ())


def _train(compared: list[Defence], workspace: Workspace) -> None:
    """Train every missing run; anything that cannot be trained is reported before the first run starts."""
    from core.cli.training import checked
    from core.pipeline.training_run import execute

    missing = dict.fromkeys(one.spec for one in compared if not one.runs(workspace.runs()))
    if not missing:
        return
    for number, spec in enumerate(checked(workspace, list(missing), batch_given=True), start=1):
        say(f"[{number}/{len(missing)}] {spec.run_id}")
        execute(spec, workspace, on_event=lambda event: say(event["message"]) if event["event"] == "stage" else None)


def _text(table: pd.DataFrame, missing: dict[str, str]) -> str:
    columns = ["name", "metric", "value", "low", "high", "control", "base", "perplexity", "known_words", "seeds"]
    shown = table.loc[table["seeds"] > 0, columns]
    lines = [
        shown.to_string(index=False, float_format=figure_text, na_rep="–") if len(shown) else "Nothing is trained yet."
    ]
    lines += [f"not trained yet: {key} ({run_id})" for key, run_id in missing.items()]
    return "\n".join([*lines, *(["Use --train to train what is missing."] if missing else [])])
