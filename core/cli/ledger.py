"""The command `ledger`: shows what has been promised about a cohort so far, and enters releases."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.cli.output import AsJson, BadInput, DataFolder, answer, errors_as_sentences
from core.cli.release import Terms, release_run, release_vocabulary
from core.cli.settings import stored_corpus
from core.common.formatting import promised_text, proved_text

if TYPE_CHECKING:
    from core.runs.ledger.choice import Choice
    from core.runs.ledger.entries import Ledger, Release
    from core.runs.store import Workspace
    from core.spec import Unit


def ledger(
    release: Annotated[
        str | None, typer.Option("--release", metavar="RUN", help="Enter the release of this run's model.")
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option("--vocabulary", metavar="FILE", help="Draw a noisy word histogram, enter it, and write it here."),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Who gets it, and what for. Required for a release.")] = None,
    best_of: Annotated[
        float | None,
        typer.Option(help="With --release: it was the best of a random number of runs, this many on average."),
    ] = None,
    best_of_shape: Annotated[
        float | None,
        typer.Option(help="With --best-of: η of that number, above −1; 0 logarithmic (default), 1 geometric."),
    ] = None,
    chosen_by: Annotated[
        str | None, typer.Option(help="With --best-of: the score and the data it was computed on. No protected notes.")
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option("--corpus", help="A preset or a cohort's folder. Default: the cohorts of all runs and ledgers."),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="With --vocabulary: ε of one word.")] = None,
    vocabulary_delta: Annotated[float, typer.Option(help="With --vocabulary: δ of one word.")] = 1e-10,
    words: Annotated[
        int | None, typer.Option(min=1, help="With --vocabulary: largest number of words counted per unit.")
    ] = None,
    unit: Annotated[str, typer.Option(help="With --vocabulary: what it protects, note or patient.")] = "note",
    delta: Annotated[float, typer.Option(help="δ of the totals.")] = 1e-5,
    budget: Annotated[
        float | None, typer.Option(help="An ε that must not be exceeded; shows how much of it is left.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Enter the release without asking, for scripts.")] = False,
    over_budget: Annotated[
        bool, typer.Option("--over-budget", help="With --yes: enter it even if it exceeds --budget.")
    ] = False,
    choice_holds: Annotated[
        bool, typer.Option("--choice-holds", help="With --yes and --best-of: what a choice needs is true, as shown.")
    ] = False,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Show what was released of each cohort, and what that promises in total. A release cannot be undone.

    Before a release is entered, its effect on the totals is shown and you are asked to confirm it. With --json and
    without --yes, the effect is only shown.
    """
    with errors_as_sentences():
        from core.runs.store import Workspace

        workspace = Workspace(data)
        if release == "":
            raise BadInput("--release: give a run id; `python -m core runs` lists them.")
        if release and vocabulary:
            raise BadInput("Give --release or --vocabulary, not both: each is one entry.")
        if (release or vocabulary) and not (reason or "").strip():
            raise BadInput("--reason: a release needs a reason. Who gets it, and what for?")
        if budget is not None and not 0 < budget < float("inf"):
            raise BadInput(f"--budget: ε must be a finite number above 0, not {budget}.")
        terms = Terms(
            delta=delta,
            budget=budget,
            yes=yes,
            over_budget=over_budget,
            choice_holds=choice_holds,
            only_preview=as_json and not yes,
        )
        choice = _choice(release, best_of, best_of_shape, chosen_by, confirmed=choice_holds)
        preview = None
        if release and reason:
            preview = release_run(workspace, release, reason, terms, choice)
        elif vocabulary and reason:
            if epsilon is None or words is None or corpus is None:
                raise BadInput(
                    "--vocabulary needs --corpus, --epsilon (of one word) and --words (largest number per unit)."
                )
            promise = {"epsilon": epsilon, "delta": vocabulary_delta, "words": words, "unit": unit}
            preview = release_vocabulary(workspace, vocabulary, corpus, promise, reason, terms)
        elif yes or over_budget:
            raise BadInput("--yes and --over-budget can only be used with --release or --vocabulary.")
        elif epsilon is not None or words is not None or reason:
            raise BadInput("--epsilon and --words need --vocabulary; --reason needs --release or --vocabulary.")
        chosen = [stored_corpus(corpus, workspace)] if corpus else _cohorts(workspace)
        _tell(workspace, chosen, delta, budget, preview, as_json=as_json)


def _choice(
    release: str | None, best_of: float | None, shape: float | None, chosen_by: str | None, *, confirmed: bool
) -> Choice | None:
    """How the run was chosen, by the options; None if it was the only run."""
    from core.runs.ledger.choice import FIXED_NUMBER, Choice

    if best_of is None:
        if shape is not None or chosen_by is not None or confirmed:
            raise BadInput("--best-of-shape, --chosen-by and --choice-holds can only be used with --best-of.")
        return None
    if not release:
        raise BadInput("--best-of can only be used with --release.")
    if not (chosen_by or "").strip():
        raise BadInput(
            "--best-of needs --chosen-by: the score and the data it was computed on, such as “loss on public notes”. "
            f"{FIXED_NUMBER}"
        )
    return Choice.of(best_of, shape or 0.0, chosen_by or "")


def _cohorts(workspace: Workspace) -> list:
    """The cohorts of all runs and of all ledgers, without repeats."""
    from core.runs.ledger.every import ledgers

    runs, released = workspace.runs(), ledgers(workspace)
    return list(dict.fromkeys([*(run.spec.corpus for run in runs), *(ledger.corpus for ledger in released)]))


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
    text = "\n\n".join(map(_text, found)) or "There is no run and no release yet: `python -m core train`."
    answer({"cohorts": found} | ({} if preview is None else {"release": preview}), text, as_json=as_json)


def described(workspace: Workspace, ledger: Ledger, delta: float, budget: float | None) -> dict[str, Any]:
    """A cohort's ledger as JSON.

    It has the releases, the total of each unit with what is left of a budget, and both units' releases together for one
    patient and for one note.
    """
    from core.runs.ledger.totals import mechanisms_of, promised, room_left, together
    from core.runs.store import CohortGone

    releases = ledger.releases()
    units: tuple[Unit, ...] = ("note", "patient")
    found = {unit: promised(releases, unit, delta) for unit in units}
    totals = {}
    for unit, total in found.items():
        silent = bool(releases) and not total.releases and not total.reasons  # the other unit's releases are not 0
        totals[unit] = {
            "releases": total.releases,
            "epsilon": None if silent else total.epsilon,
            "delta": delta,
            "accountant": total.accountant,
            "choices": total.choices,
            "accounting": total.accounting(),
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
    both, unknown = [], ""
    try:
        if releases:
            cohort = workspace.corpus(ledger.corpus, store=False)
            both = together(releases, found["note"], found["patient"], cohort)
    except CohortGone as gone:
        unknown = f"What the releases mean together for one patient or one note is not known. {gone}"
    return {
        "cohort": ledger.corpus.digest(),
        "patients": ledger.corpus.patients,
        "releases": entries,
        "totals": totals,
        "together": [{**asdict(one), "sentence": one.sentence()} for one in both],
        "together_unknown": unknown,
    }


def _entry(release: Release) -> dict[str, Any]:
    entry = release.model_dump(mode="json", exclude={"corpus", "previous"})
    chosen = None if release.choice is None else release.choice.text()
    return {**entry, "unit": release.unit, "epsilon": release.epsilon(), "chosen": chosen}


def _promise(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else promised_text(epsilon)


def _text(cohort: dict[str, Any]) -> str:
    lines = [f"Cohort {cohort['cohort']} ({cohort['patients']:,} patients): {len(cohort['releases'])} released"]
    for one in cohort["releases"]:
        promise = f"ε = {_promise(one['epsilon'])} per {one['unit']}" if one["unit"] else "no privacy: ε = ∞"
        chosen = f" ({one['chosen']})" if one["chosen"] else ""
        lines.append(f"  {one['number']}. {one['kind']} {one['name']}, {promise}{chosen}; {one['reason']}")
    both = all(total["releases"] for total in cohort["totals"].values())
    for unit, total in cohort["totals"].items():
        if not total["releases"] and not total["reasons"]:
            continue
        what = f"what was released per {unit}" if both else f"per {unit}"
        lines.append(
            f"  {what}, together: ε = {_promise(total['epsilon'])} at δ = {total['delta']:g}"
            + (
                f" ({total['accounting']}; the sum of the single ε is {_promise(total['sum_of_epsilons'])})"
                if math.isfinite(total["epsilon"])  # else nothing was composed: a release without privacy is in no sum
                else ""
            )
        )
        lines += [f"    {reason}" for reason in total["reasons"]]
        if "left" in total:
            lines.append(f"    of a budget of {total['budget']:g}, these leave {proved_text(total['left'])}")
        if "one_more_run_like_the_last" in total:
            within = f", for what is released per {unit}" if both else ""
            lines.append(
                "    one more run like the last may spend ε = "
                f"{proved_text(total['one_more_run_like_the_last'])}{within}"
            )
    lines += [f"  {one['sentence']}" for one in cohort["together"]]
    lines += [f"  {cohort['together_unknown']}"] if cohort["together_unknown"] else []
    return "\n".join(lines)
