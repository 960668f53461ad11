"""Releases: entering one, after its effect on the totals was shown and confirmed; and `notes`, written for release."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.cli.output import AsJson, BadInput, DataFolder, answer, errors_as_sentences, say
from core.cli.settings import stored_corpus
from core.common.formatting import figure_text
from core.spec import VocabularySpec

if TYPE_CHECKING:
    from core.runs.ledger.choice import Choice
    from core.runs.ledger.entries import Ledger, Release
    from core.runs.ledger.release_effect import Effect
    from core.runs.store import Workspace

YES = ("y", "yes")


@dataclass(frozen=True)
class Terms:
    """The δ of the totals, the ε that must not be exceeded, and what the command line confirms."""

    delta: float
    budget: float | None
    yes: bool
    over_budget: bool
    choice_holds: bool
    only_preview: bool


def release_run(
    workspace: Workspace, run_id: str, reason: str, terms: Terms, choice: Choice | None = None
) -> dict[str, Any]:
    """Enter the release of a run's model after confirmation. Returns its effect on the totals, as JSON."""
    from core.runs.ledger.entries import Ledger

    run = workspace.run(run_id)
    ledger = Ledger.of(workspace, run.spec.corpus)
    draft = ledger.draft_run(run, reason, choice)
    found = _effect(workspace, ledger, draft, terms)
    agreed = _agreed(draft, found, terms)
    if agreed:
        ledger.enter(draft)
    return _described(draft, found, entered=agreed)


def release_vocabulary(
    workspace: Workspace, out: Path, corpus: str, promise: dict[str, Any], reason: str, terms: Terms
) -> dict[str, Any]:
    """Draw a histogram, enter it and write it, after confirmation.

    It is entered before it is written: an entry without a file does no harm.
    """
    from core.common.files import create, replace_text
    from core.common.randomness import SecretKey
    from core.models.dp_vocabulary import unit_counts
    from core.models.word_noise import WordNoise
    from core.runs.ledger.entries import Ledger, Vocabulary

    vocabulary = Vocabulary(**promise)
    if out.exists():
        raise BadInput(f"--vocabulary: {out} exists. Choose another name.")
    spec = stored_corpus(corpus, workspace)
    ledger = Ledger.of(workspace, spec)
    draft = ledger.draft_vocabulary(out.name, vocabulary, reason)
    found = _effect(workspace, ledger, draft, terms)
    agreed = _agreed(draft, found, terms)
    if agreed:
        notes = workspace.corpus(spec, store=False).training_notes()
        key = SecretKey.fresh()  # not stored: nobody can generate this noise again
        counts = unit_counts(str.split, notes, vocabulary.unit, vocabulary.words, key)
        of_a_word = VocabularySpec(noise="laplace", words=1, epsilon=vocabulary.epsilon, delta=vocabulary.delta)
        kept = WordNoise.planned(of_a_word).release(counts, key.stream(0))
        private = spec.imported is not None
        out.parent.mkdir(parents=True, exist_ok=True)
        create(out, private=private)  # fails before anything is entered if the file cannot be written
        try:
            ledger.enter(draft)
        except Exception:
            out.unlink()
            raise
        replace_text(out, json.dumps(kept, ensure_ascii=False, indent=0), private=private)
    return _described(draft, found, entered=agreed)


def _effect(workspace: Workspace, ledger: Ledger, draft: Release, terms: Terms) -> Effect:
    from core.runs.ledger.release_effect import effect

    return effect(ledger.releases(), draft, workspace.corpus(ledger.corpus, store=False), terms.delta)


def _agreed(draft: Release, found: Effect, terms: Terms) -> bool:
    """Show the effect of the entry and ask. Raises BadInput if it is refused, or if nobody can answer."""
    over = [] if terms.budget is None else found.over(terms.budget)
    exceeds = (
        f"the total for one {' and for one '.join(over)} would exceed the budget of {terms.budget:g}" if over else ""
    )
    if terms.only_preview:
        return False
    say(f"Entry {draft.number} of cohort {draft.cohort} would be: {draft.kind} {draft.name}, {draft.reason}")
    for sentence in found.sentences():
        say(f"  {sentence}")
    needs = _conditions(draft)
    for sentence in needs:
        say(f"  {sentence}")
    if terms.yes:
        if needs and not terms.choice_holds:
            raise BadInput("Nothing was entered: a choice needs all of this. Add --choice-holds if it is true.")
        if exceeds and not terms.over_budget:
            raise BadInput(f"Nothing was entered: {exceeds}. Add --over-budget to enter it anyway.")
        return True
    warning = f"{exceeds[0].upper()}{exceeds[1:]}. " if exceeds else ""
    if needs:
        warning += "“y” confirms that all of this is true. "
    print(f"{warning}A release cannot be undone. Enter it? [y/N] ", end="", file=sys.stderr, flush=True)
    given = sys.stdin.readline() if sys.stdin is not None else ""
    if not given:
        say("")  # end the line of the question
        raise BadInput("Nothing was entered: standard input is closed. Add --yes to enter the release without asking.")
    if given.strip().lower() not in YES:
        raise BadInput("Nothing was entered: the answer was not “y”.")
    return True


def _conditions(draft: Release) -> list[str]:
    """What a drafted choice needs to be true, after a line that says which choice; empty without one."""
    from core.runs.ledger.choice import CHOICE_HOLDS, FIXED_NUMBER

    if draft.choice is None:
        return []
    return [
        f"It is the {draft.choice.text()}. This counts only if:",
        *(f"- {one}" for one in CHOICE_HOLDS),
        FIXED_NUMBER,
    ]


def _described(draft: Release, found: Effect, *, entered: bool) -> dict[str, Any]:
    changes = [
        {
            "unit": one.unit,
            "whom": one.whom,
            "combined": one.combined,
            "before": None if one.before is None else dict(zip(("epsilon", "delta"), one.before, strict=True)),
            "after": None if one.after is None else dict(zip(("epsilon", "delta"), one.after, strict=True)),
        }
        for one in found.changes
    ]
    return {
        "name": draft.name,
        "kind": draft.kind,
        "choice": None if draft.choice is None else draft.choice.model_dump(mode="json"),
        "conditions": _conditions(draft),
        "entry": draft.number,
        "entered": entered,
        "changes": changes,
        "reasons": list(found.reasons),
        "sentences": found.sentences(),
    }


def notes(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A GPT-2 run with weights.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write the notes (.csv).")],
    count: Annotated[int, typer.Option(help="How many notes to write.")] = 1_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Write synthetic notes to release instead of the model, as CSV with a card of what attacks find in them."""
    with errors_as_sentences():
        from core.pipeline.released_card import card_files, describe, publish
        from core.pipeline.released_notes import released_notes
        from core.runs.store import Workspace

        if out.suffix != ".csv":
            raise BadInput(f"--out: {out} does not end in .csv.")
        taken = [path for path in (out, *card_files(out)) if path.exists()]
        if taken:
            raise BadInput(f"--out: {taken[0]} exists. Choose another name.")
        workspace = Workspace(data)
        made = released_notes(workspace.run(run), workspace, count, seed=seed, on_progress=_notes_progress)
        files = publish(made, out)
        shown = made.figures.drop(columns="note").to_string(index=False, float_format=figure_text, na_rep="–")
        described = {**describe(made), "files": [str(path) for path in files]}
        answer(described, f"{shown}\n{out}: {len(made.texts):,} notes; card: {files[0]}", as_json=as_json)


def _notes_progress(doing: str, done: int, total: int) -> None:
    if done in (0, total):
        say(f"{doing}: {done:,} of {total:,}")
