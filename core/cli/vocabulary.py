"""The command `words`: names that vocabularies from notes leak, and a comparison of models with such vocabularies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from core.cli.output import AsJson, BadInput, DataFolder, answer, errors_as_sentences, say
from core.cli.settings import model_spec, stored_corpus
from core.common.formatting import accounted_text, figure_text
from core.spec import CLINICAL, AuditSpec, Unit, VocabularySpec

if TYPE_CHECKING:
    import pandas as pd

    from core.runs.run import Run
    from core.runs.store import Workspace


def words(
    run: Annotated[
        list[str] | None, typer.Argument(help="Runs of masked models to compare. Without runs, uses --corpus.")
    ] = None,
    corpus: Annotated[
        str, typer.Option("--corpus", help="A preset, or a folder written by `corpus --out`.")
    ] = "classroom",
    model: Annotated[
        str, typer.Option("--model", help="Its public vocabulary is extended: distilbert or bert.")
    ] = "distilbert",
    unit: Annotated[str, typer.Option(help="What is protected: note or patient.")] = "note",
    count: Annotated[int, typer.Option("--words", help="Different words counted per unit.")] = 10,
    pieces: Annotated[int, typer.Option(help="Maximum new entries.")] = 512,
    noise: Annotated[str, typer.Option(help="gaussian or laplace.")] = "gaussian",
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Show names in the vocabularies that notes would give, for several ε; or compare runs on held-out notes."""
    with errors_as_sentences():
        from core.runs.store import Workspace

        workspace = Workspace(data)
        if run:
            table = _runs(workspace, [workspace.run(name) for name in run])
        else:
            units: tuple[Unit, ...] = ("note", "patient")
            if unit not in units:
                raise BadInput(f"--unit: “{unit}” is neither note nor patient.")
            spec = VocabularySpec(epsilon=1.0, words=count, pieces=pieces, noise=noise)
            table = _cohort(workspace, corpus, model, spec, unit)
        text = table.to_string(index=False, float_format=figure_text, formatters={"epsilon": _epsilon})
        text += "" if run else _drawn(unit)
        answer(table.to_dict("records"), text, as_json=as_json)


def _drawn(unit: str) -> str:
    from core.evaluation.memorisation.vocabulary import DRAWS

    return f"\n\nWith noise: means of {DRAWS} draws of the noise. Which words of a {unit} count is drawn once."


def _epsilon(epsilon: float) -> str:
    """A guarantee, so rounded up."""
    return "–" if math.isnan(epsilon) else "∞" if math.isinf(epsilon) else accounted_text(epsilon)


def _cohort(workspace: Workspace, corpus: str, model: str, spec: VocabularySpec, unit: Unit) -> pd.DataFrame:
    from core.evaluation.memorisation.vocabulary import names_by_epsilon
    from core.models.build import load

    cohort = workspace.corpus(stored_corpus(corpus, workspace), store=False)
    found = names_by_epsilon(load(model_spec(model, "tiny", CLINICAL)), cohort, spec, unit=unit)
    return found.groupby(["epsilon", "arm"], as_index=False, sort=False).mean().drop(columns="draw")


def _runs(workspace: Workspace, runs: list[Run]) -> pd.DataFrame:
    """One row per run: its ε, new entries, bits per character and tokens per note on the same held-out notes."""
    import pandas as pd

    from core.attacks.word_likelihood import word_likelihoods
    from core.evaluation.memorisation.vocabulary import reading_figures

    if len({run.spec.corpus for run in runs}) > 1:
        raise BadInput(
            "These runs were trained on different cohorts. Give runs of one cohort, so that figures are comparable."
        )
    if causal := [run.id for run in runs if run.spec.model.kind == "gpt2"]:
        raise BadInput(
            f"{causal[0]} is a GPT-2 model, which cannot fill in words. Give DistilBERT and BERT models only."
        )
    cohort, rows = workspace.corpus(runs[0].spec.corpus, store=False), []
    for run in runs:
        say(f"{run.id}: scoring held-out notes word by word")
        promise = run.privacy.epsilon() if run.privacy else (0.0 if run.spec.is_base else math.inf)
        row = {"run": run.id, "epsilon": promise, "entries": len(run.vocabulary or ())}
        for figure in reading_figures(word_likelihoods({"run": run.model()}, cohort, AuditSpec()), AuditSpec()):
            row |= {
                figure.metric: figure.value,
                f"{figure.metric}_low": figure.low,
                f"{figure.metric}_high": figure.high,
            }
        rows.append(row)
    return pd.DataFrame(rows)
