"""The command `ledger`: what has been promised about a cohort so far, and entering a release."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.cli.output import AsJson, BadInput, DataFolder, answer, errors_as_sentences
from core.cli.release import Terms, release_run, release_vocabulary
from core.cli.settings import stored_corpus

if TYPE_CHECKING:
    from core.runs.ledger.entries import Ledger, Release
    from core.runs.store import Workspace
    from core.spec import Unit


def ledger(
    release: Annotated[
        str | None, typer.Option("--release", metavar="RUN", help="Enter that this run's model is given away.")
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option("--vocabulary", metavar="FILE", help="Make a noisy word histogram, enter it, and write it here."),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Who gets it and what for; a release needs one.")] = None,
    corpus: Annotated[
        str | None, typer.Option("--corpus", help="A cohort: a preset or a folder. Default: every cohort of a run.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="ε of one word of the vocabulary.")] = None,
    vocabulary_delta: Annotated[float, typer.Option(help="δ of one word of the vocabulary.")] = 1e-10,
    words: Annotated[int | None, typer.Option(min=1, help="At most so many words of one unit are counted.")] = None,
    unit: Annotated[str, typer.Option(help="What the vocabulary protects: note or patient.")] = "note",
    delta: Annotated[float, typer.Option(help="δ at which totals are told.")] = 1e-5,
    budget: Annotated[float | None, typer.Option(help="An ε that must not be exceeded: says what is left.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Enter the release without asking, for scripts.")] = False,
    over_budget: Annotated[
        bool, typer.Option("--over-budget", help="With --yes: enter it even where it exceeds --budget.")
    ] = False,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """What was released of each cohort, and what that promises together. A release cannot be undone.

    What a release does to the totals is shown first, and asked; with --json and without --yes it is shown only.
    """
    with errors_as_sentences():
        from core.runs.store import Workspace

        workspace = Workspace(data)
        if release == "":
            raise BadInput("--release: give the name of a run; `python -m core runs` lists them.")
        if release and vocabulary:
            raise BadInput("Give --release or --vocabulary, not both: each is one entry.")
        if (release or vocabulary) and not (reason or "").strip():
            raise BadInput("--reason: a release needs one. Who gets it, and what for?")
        if budget is not None and not 0 < budget < float("inf"):
            raise BadInput(f"--budget: an ε is a number above 0, not {budget}.")
        terms = Terms(delta=delta, budget=budget, yes=yes, over_budget=over_budget, only_preview=as_json and not yes)
        preview = None
        if release and reason:
            preview = release_run(workspace, release, reason, terms)
        elif vocabulary and reason:
            if epsilon is None or words is None or corpus is None:
                raise BadInput("--vocabulary needs --corpus, --epsilon (of one word) and --words (most words a unit).")
            promise = {"epsilon": epsilon, "delta": vocabulary_delta, "words": words, "unit": unit}
            preview = release_vocabulary(workspace, vocabulary, corpus, promise, reason, terms)
        elif yes or over_budget:
            raise BadInput("--yes and --over-budget belong to --release or --vocabulary.")
        elif epsilon is not None or words is not None or reason:
            raise BadInput("--epsilon, --words and --reason belong to --release or --vocabulary.")
        chosen = [stored_corpus(corpus, workspace)] if corpus else _cohorts(workspace)
        _tell(workspace, chosen, delta, budget, preview, as_json=as_json)


def _cohorts(workspace: Workspace) -> list:
    """The cohorts of all runs, each once."""
    return list(dict.fromkeys(run.spec.corpus for run in workspace.runs()))


def _tell(
    workspace: Workspace,
    cohorts: list,
    delta: float,
    budget: float | None,
    preview: dict[str, Any] | None,
    *,
    as_json: bool,
) -> None:
    from core.runs.ledger.entries import Ledger

    found = [described(workspace, Ledger.of(workspace, spec), delta, budget) for spec in cohorts]
    text = "\n\n".join(map(_text, found)) or "There is no cohort with a run yet: `python -m core train`."
    answer({"cohorts": found} | ({} if preview is None else {"release": preview}), text, as_json=as_json)


def described(workspace: Workspace, ledger: Ledger, delta: float, budget: float | None) -> dict[str, Any]:
    """A cohort's ledger as JSON: its releases, the total of each unit with what is left of a budget, and both units'
    releases together for one patient and one note.
    """
    from core.runs.ledger.totals import mechanisms_of, promised, room_left, together

    releases = ledger.releases()
    units: tuple[Unit, ...] = ("note", "patient")
    found = {unit: promised(releases, unit, delta) for unit in units}
    totals = {}
    for unit, total in found.items():
        silent = bool(releases) and not total.releases and not total.reasons  # the other unit's releases are no 0
        totals[unit] = {
            "releases": total.releases,
            "epsilon": None if silent else total.epsilon,
            "delta": delta,
            "accountant": total.accountant,
            "if_independent": total.if_independent,
            "sum_of_epsilons": total.added,
            "reasons": list(total.reasons),
        }
        if budget is not None and not silent:
            totals[unit]["budget"] = budget
            totals[unit]["left"] = 0.0 if total.reasons else max(0.0, budget - total.epsilon)
            if mechanisms_of(releases, unit) and not total.reasons:
                more = room_left(releases, unit, budget, delta)
                totals[unit]["one_more_run_like_the_last"] = more.epsilon() if more else 0.0
    entries = [_entry(release) for release in releases]
    cohort = workspace.corpus(ledger.corpus, store=False) if releases else None
    both = together(releases, found["note"], found["patient"], cohort) if cohort else []
    return {
        "cohort": ledger.corpus.digest(),
        "patients": ledger.corpus.patients,
        "releases": entries,
        "totals": totals,
        "together": [{**asdict(one), "sentence": one.sentence()} for one in both],
    }


def _entry(release: Release) -> dict[str, Any]:
    told = release.model_dump(mode="json", exclude={"corpus", "previous"})
    return {**told, "unit": release.unit, "epsilon": release.epsilon()}


def _text(cohort: dict[str, Any]) -> str:
    lines = [f"Cohort {cohort['cohort']} ({cohort['patients']:,} patients): {len(cohort['releases'])} released"]
    for one in cohort["releases"]:
        promise = f"ε = {one['epsilon']:.4g} a {one['unit']}" if one["unit"] else "no privacy: ε = ∞"
        lines.append(f"  {one['number']}. {one['kind']} {one['name']}, {promise}; {one['reason']}")
    both = all(total["releases"] for total in cohort["totals"].values())
    for unit, total in cohort["totals"].items():
        if not total["releases"] and not total["reasons"]:
            continue
        what = f"what was released per {unit}" if both else f"per {unit}"
        lines.append(
            f"  {what}, together: ε = {total['epsilon']:.4g} at δ = {total['delta']:g} "
            f"(the single ones add up to {total['sum_of_epsilons']:.4g})"
        )
        lines += [f"    {reason}" for reason in total["reasons"]]
        if "left" in total:
            lines.append(f"    a budget of {total['budget']:g} less that alone is {total['left']:.4g}")
        if "one_more_run_like_the_last" in total:
            within = f", for what is released per {unit}" if both else ""
            lines.append(
                f"    one more run like the last may spend ε = {total['one_more_run_like_the_last']:.4g}{within}"
            )
    lines += [f"  {one['sentence']}" for one in cohort["together"]]
    return "\n".join(lines)
