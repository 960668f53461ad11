"""The first page of a report: a verdict on one model, and ten facts about it.

Everything is read from the report's other tables and facts, so that page one and the annex cannot differ.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from core.attacks.membership.decision import in_words
from core.common.formatting import delta_text, promised_text, proved_text
from core.evaluation.guarantee.audit_guarantee import by_curve, headline_bound
from core.evaluation.guarantee.odds import group_sentence
from core.evaluation.guarantee.step_audit import chosen_proof
from core.evaluation.registry import figure_text
from core.evaluation.report.tables import ENDS
from core.evaluation.wording import (
    ALL_RIGHT,
    FROM_MODEL,
    NEARLY_ALL,
    interval_text,
    leak_sentence,
    pairs_of,
    perplexity_name,
    right_of_100,
)
from core.runs.facts import FLOATING_POINT, neighbours
from core.runs.ledger.choice import Choice
from core.runs.ledger.totals import EMPTY
from core.runs.run import Run
from core.spec.model_names import MODEL_NAMES
from core.training.accounting.composition import has_advantage

Row = Mapping[Hashable, Any]
LEAK = "direct_patients"  # the leak that the verdict is about
KNOWN_WORDS = "known_words"
UNTOLD = "There are too few patients to tell whether the attacks found anything. "
OF_A_KEY = "Its noise came from a secret key, which was destroyed after training."
NOTHING_FOUND = "These attacks found nothing, but that is no protection. "
OF_PUBLIC_NOISE = "If its noise were secret,"  # begins what a guarantee says that is only shown
OF_A_SEED = "Its noise came from a public seed, so anyone can generate it again and subtract it."
EQUAL_ODDS = "In and out are equally likely beforehand (a coin: 50)."
ONE_TRAINING = "Exact accounting, μ and the trade-off curve are known for a single run only, so they are left out."
CONTRADICTED = "An attack proves more than the guarantee allows, which chance alone seldom does: look for a bug."


@dataclass(frozen=True)
class Subject:
    """The model that the first page is about, and the rows of the report's tables that are about it."""

    run: Run
    name: str
    model: Row
    tables: Mapping[str, pd.DataFrame]
    most_notes: int  # training notes of the patient with the most
    choice: Choice | None = None  # the ledger has the run as the best of several runs

    @classmethod
    def of(
        cls, run: Run, name: str, tables: Mapping[str, pd.DataFrame], most_notes: int, choice: Choice | None = None
    ) -> Subject:
        """The model of a run of the report, whose tables these are."""
        models = tables["models"]
        return cls(run, name, models[models["run"] == run.id].iloc[0].to_dict(), tables, most_notes, choice)

    @property
    def protected(self) -> bool:
        """Whether an ε is promised: trained with noise that nobody can generate again."""
        return self.model["unit"] != "" and self.model["noise_source"] == "secret"

    def row(self, table: str, **values: object) -> Row | None:
        """The only row of this run in a table that has these values; None if there is none."""
        found = self.rows(table, **values)
        return found[0] if found else None

    def rows(self, table: str, **values: object) -> list[dict[Hashable, Any]]:
        """All rows of this run in a table that have these values."""
        frame = self.tables[table]
        if frame.empty:
            return []
        found = frame[frame["run"] == self.run.id]
        for column, value in values.items():
            found = found[found[column] == value]
        return found.to_dict("records")

    def bound(self) -> Row | None:
        """The bound on ε that a sentence may use (`headline_bound`); None for the base model or without trials."""
        rows = self.tables["bounds"]
        found = None if self.run.spec.is_base else headline_bound(rows[rows["run"] == self.run.id])
        return None if found is None else found.to_dict()

    def curve(self) -> Row | None:
        """The bound by the run's own trade-off curve (`by_curve`); None where there is none."""
        rows = self.tables["bounds"]
        found = by_curve(rows[rows["run"] == self.run.id]) if len(rows) else None
        return None if found is None else found.to_dict()

    def planted(self) -> Row | None:
        """What an attacker who sees every step proved (`chosen_proof`); None where nobody measured it."""
        return chosen_proof(pd.DataFrame(self.rows("planted")))

    @property
    def patients(self) -> str:
        """The patients of the arm `run`: those that the model was trained on; the public base model has none."""
        return "the cohort's training patients" if self.run.spec.is_base else "its patients"

    @property
    def alarmed(self) -> bool:
        """Whether an attack proves more than the promise (`alarmed`)."""
        return alarmed(self.tables, self.run.id)

    @property
    def holds(self) -> bool:
        """Whether the report may present the guarantee as one: an ε is promised, and no attack contradicts it."""
        return self.protected and not self.alarmed

    def supposed(self, said: str) -> str:
        """A sentence that follows from the guarantee, with the condition on which it is true; unchanged if it holds."""
        if self.holds:
            return said
        condition = "If no attack contradicted its guarantee," if self.alarmed else OF_PUBLIC_NOISE
        return f"{condition} {said[0].lower()}{said[1:]}"


def alarmed(tables: Mapping[str, pd.DataFrame], run_id: str) -> bool:
    """Whether an attack proves more than a run promises, on the finished model by either bound, or on its steps.

    Args:
        tables: those of the report; `bounds` and `planted` are read.
        run_id: a run of the report.
    """
    both = (tables["bounds"], tables["planted"])
    bounds, planted = (frame if frame.empty else frame[frame["run"] == run_id] for frame in both)
    proved = [] if bounds.empty else [headline_bound(bounds), by_curve(bounds)]
    return any(one is not None and bool(one["alarm"]) for one in (*proved, chosen_proof(planted)))


def subject_of(runs: Sequence[Run], wanted: str | None = None) -> Run:
    """The run that is decided about: the wanted one, else the first private one, those with secret noise before others.

    Raises:
        ValueError: The wanted run is not among the report's.
    """
    if wanted is not None:
        for run in runs:
            if run.id == wanted:
                return run
        raise ValueError(f"{wanted} is not among the runs of the report: {', '.join(run.id for run in runs)}.")
    return min(runs, key=lambda run: (run.noise_source != "secret", run.noise_source is None))


def verdict(subject: Subject) -> tuple[str, str]:
    """(key, sentence): the verdict by fixed rules, from guarantee, audit, leak and strongest attack alone."""
    leak, tells = subject.row("controls", metric=LEAK), _recognised(subject)
    leaks = leak is not None and leak["verdict"] == "exceeds its control"
    unmeasured = leak is None or not leak["verdict"]
    recognised = f"An attack can recognise what the model was trained on{tells}. " if tells is not None else ""
    found = "It writes identifiers of its patients. " if leaks else recognised
    if subject.run.spec.is_base:
        return "public", "The public model: it was trained on none of these notes."
    if subject.alarmed:
        return "alarm", f"Do not release. {CONTRADICTED}"
    if not subject.model["unit"]:
        nothing = UNTOLD if any(math.isnan(row["low"]) for row in subject.rows("strongest")) else NOTHING_FOUND
        found = found or ("What it writes was not measured. " if unmeasured else nothing)
        return "unprotected", f"No guarantee. {found}Treat the model like the notes themselves."
    if not subject.protected:
        said = "Not for release: its noise can be generated again, so its ε is shown, not promised."
        return "not promised", f"{found}{said}"
    if subject.model["epsilon"] > EMPTY or right_of_100(_most_right(subject)) == ALL_RIGHT:
        return "empty", f"{found}Guaranteed in name only: an ε this large limits nothing in practice."
    whom = "Guaranteed for each patient" if subject.model["unit"] == "patient" else "Guaranteed for each note alone"
    if leaks:
        return "leaks", f"{whom}, and yet it writes more identifiers of its patients than of others."
    if tells is not None:
        return "recognised", f"{whom}, and yet an attack can recognise what the model was trained on{tells}."
    if unmeasured:
        return "guaranteed", f"{whom}, and no attack that was run contradicts it. What it writes was not measured."
    return (
        "guaranteed",
        f"{whom}. No attack that was run contradicts it, and no figure that was measured shows memorising.",
    )


def _most_right(subject: Subject) -> float:
    """The least bound on right guesses that is known: by exact accounting, but of a choice by (ε, δ) alone."""
    counted = float(subject.model["right_guesses_counted"])
    return counted if subject.choice is None else float(subject.model["right_guesses_promised"])


def _recognised(subject: Subject) -> str | None:
    """How well an attack tells training data from others, with a blank before it; None if none does.

    The strongest attack by patient or by note beats a coin and its control; or planted secrets theirs, of which nothing
    more is said.
    """
    secrets = [row["verdict"] for row in subject.rows("controls") if str(row["metric"]).startswith("exposure:")]
    attacks = [row for table in ("strongest", "strongest_note") for row in subject.rows(table)]
    # the coin, if there is no control
    beaten = [row for row in attacks if row["low"] > 0.5 and not row["low"] <= row["base_high"]]
    if beaten:
        best = max(beaten, key=lambda row: row["value"])
        right, of = pairs_of(best["value"], low=best["low"])
        ends = f"{of * best['low']:,.0f} to {of * best['high']:,.0f}"
        return f" (right in {right:,} of {of:,} pairs, {ends}; a coin: {of // 2:,})"
    return "" if "exceeds its control" in secrets else None


def facts(subject: Subject, cohort: Mapping[str, Any], released: str) -> list[dict[str, str]]:
    """Ten facts, each with a stable key, a question, its answer, and the part of the annex that has the evidence.

    `cohort` is the report's fact of that name, and `released` says what else was released.
    """
    found = [
        ("model", "Which model?", _model(subject, cohort), "identity"),
        ("guarantee", "What is guaranteed?", _guarantee(subject), "label"),
        ("guesses", "How often can an attacker guess right?", _guesses(subject), "guarantees"),
        ("many_notes", "And for the patient with the most notes?", _many_notes(subject), "label"),
        ("membership_patient", "Strongest attack, by patient", _membership(subject, "strongest", "patient"), "attacks"),
        ("membership_note", "Strongest attack, by note", _membership(subject, "strongest_note", "note"), "attacks"),
        ("written", "Whose identifiers did it write?", _written(subject), "attacks"),
        ("audit", "Does an attack contradict ε?", _audit(subject), "bounds"),
        ("released", "What else was released?", released, "ledger"),
        ("useful", "Is it useful?", _useful(subject), "attacks"),
    ]
    return [dict(zip(("key", "question", "answer", "link"), one, strict=True)) for one in found]


def _model(subject: Subject, cohort: Mapping[str, Any]) -> str:
    model = subject.model
    what = f"{MODEL_NAMES[model['model']]} ({model['size']}), run {model['run']}"
    if subject.run.spec.is_base:
        return f"{what}: public, the control of the others."
    members = cohort["patients"].get("member", 0)
    planted = cohort["canaries_planted"]
    canaries = f" and the planted ones of {planted:,} canaries" if planted else ""
    return (
        f"{what}, trained on {cohort['training_notes']:,} notes: those of {members:,} patients{canaries}. The cohort "
        f"is {cohort['kind']}."
    )


def _guarantee(subject: Subject) -> str:
    model = subject.model
    if not model["unit"]:
        return "Nothing to guarantee." if subject.run.spec.is_base else "Nothing: trained without differential privacy."
    held = f"ε = {promised_text(model['epsilon'])} at δ = {delta_text(model['delta'])} for one {model['unit']}"
    held += "" if subject.choice is None else f", as the {subject.choice.briefly()}"
    near = f"neighbours: {neighbours({'neighbouring': model['neighbouring'], 'unit': model['unit']})}"
    if subject.alarmed:
        of_noise = OF_A_KEY if subject.protected else OF_A_SEED
        return f"Nothing. {CONTRADICTED} It was to be {held} ({near}). {of_noise} {FLOATING_POINT}"
    if subject.protected:
        return f"{held} ({near}). {OF_A_KEY} {FLOATING_POINT}"
    return f"Nothing. {OF_A_SEED} If it were secret: {held} ({near}). {FLOATING_POINT}"


def _guesses(subject: Subject) -> str:
    model = subject.model
    if subject.run.spec.is_base:
        return "Nothing about these patients: 50 of 100 guesses are right by tossing a coin."
    if not model["unit"]:
        return "No limit: of 100 guesses whether someone was in the data, all may be right."
    if subject.choice is not None:
        return subject.supposed(_guesses_of_choice(subject, subject.choice))
    counted, promised = (right_of_100(float(model[f"right_guesses_{by}"])) for by in ("counted", "promised"))
    limit = f"on average at most {counted} are right"
    if counted == ALL_RIGHT:
        computed = subject.run.privacy is not None and has_advantage([subject.run.privacy])
        limit = f"on average {NEARLY_ALL} may be right" if computed else "no bound could be computed"
    if promised == ALL_RIGHT:
        promised = NEARLY_ALL
    return subject.supposed(
        f"Of 100 guesses whether one {model['unit']} was in the data, {limit} by this run’s exact accounting; "
        f"by (ε, δ) alone {promised}. {EQUAL_ODDS}"
    )


def _guesses_of_choice(subject: Subject, choice: Choice) -> str:
    right = right_of_100(float(subject.model["right_guesses_promised"]))
    limit = f"{NEARLY_ALL} may be right" if right == ALL_RIGHT else f"at most {right} are right"
    return (
        f"Of 100 guesses whether one {subject.model['unit']} was in the data, on average {limit} by (ε, δ). "
        f"{EQUAL_ODDS} Chosen as the {choice.briefly()}. {ONE_TRAINING}"
    )


def _many_notes(subject: Subject) -> str:
    unit, most, mechanism = subject.model["unit"], subject.most_notes, subject.run.privacy
    if mechanism is None:
        public = subject.run.spec.is_base
        return "The same: the model read none of their notes." if public else "Nothing is guaranteed to them either."
    if unit == "patient":
        cap = subject.run.note_cap
        notes = f"up to {most:,} training notes" + ("" if cap is None else f", at most {cap:,} by the cap,")
        said = f"The same guarantee: all notes of a patient ({notes} here) count as one."
    elif most <= 1:
        said = "The same guarantee: no patient has more than one training note."
    else:
        said = group_sentence(subject.choice.best_of(mechanism) if subject.choice else mechanism, most)
    return subject.supposed(said)


def _membership(subject: Subject, table: str, unit: str) -> str:
    row = subject.row(table)
    if row is None:
        return "Not measured."
    chosen = (
        f"{in_words(row['attack'])}, the strongest of {row['attacks']} membership attacks; the interval is widened for "
        "the choice"
        if row["attacks"] > 1
        else f"{in_words(row['attack'])}, the only one that was run"
    )
    told = f"AUC {_auc(row, '')} on {row[f'{unit}s']:,} {unit}s by {chosen}. A coin: 0.5."
    if math.isnan(row["base_value"]):
        return told
    return f"{told} Control, the loss attack on the public model: {_auc(row, 'base_')}."


def _auc(row: Row, prefix: str) -> str:
    value, low, high = (float(row[f"{prefix}{end}"]) for end in ENDS)
    return f"{figure_text('auc_loss', value)} ({interval_text(low, high, lambda end: figure_text('auc_loss', end))})"


def _written(subject: Subject) -> str:
    row = subject.row("controls", metric=LEAK)
    if row is None or math.isnan(row["heldout_value"]):
        return "Not measured."
    value, low, high = (float(row[end]) for end in ENDS)
    control, control_low, control_high = (float(row[f"heldout_{end}"]) for end in ENDS)
    said = leak_sentence(value, low, high, control, control_low, control_high)
    return f"A direct identifier of {said}".replace(" (95", f" of {subject.patients} (95", 1)


def _audit(subject: Subject) -> str:
    """Yes or no, and what was proved; how it was measured is in the annex."""
    row, curve, planted = subject.bound(), subject.curve(), subject.planted()
    if subject.run.spec.is_base:
        return "Nothing to test: the public model read none of these notes."
    if row is None and planted is None:
        return "Not tested: no canaries were planted and no patient was scored."
    told = []
    if row is not None:
        most = f"audit: {row['audit']}; could prove at most ε = {proved_text(float(row['ceiling']))}"
        if curve is not None and str(curve["audit"]).startswith(str(row["audit"])):  # an alarm may be another audit's
            most += f", by the run’s curve {proved_text(float(curve['ceiling']))}"
        own = _by_curve(math.nan if curve is None else curve["epsilon"], "the run’s own")
        told.append(f"{FROM_MODEL} prove {_proved(row['epsilon'])} ({most}){own}.")
    if planted is not None:
        most = f"could prove at most ε = {proved_text(float(planted['ceiling']))}"
        own = _by_curve(planted["proved_by_curve"], "its")
        told.append(
            f"An attacker who sees every step of such a training proves {_proved(planted['proved'])} ({most}){own}."
        )
    if not subject.model["unit"]:
        return " ".join(["No: without differential privacy there is no ε to contradict.", *told])
    told.append(f"By accounting ε = {promised_text(subject.model['epsilon'])}.")
    return " ".join(["Yes." if subject.alarmed else "No.", *told])


def _proved(epsilon: float) -> str:
    return f"ε ≥ {proved_text(float(epsilon))}" if epsilon > 0 else "no ε above 0"


def _by_curve(epsilon: float, whose: str) -> str:
    """The end of a sentence on what a trade-off curve proves beside it; empty if that is nothing."""
    return f", and by {whose} curve {_proved(epsilon)}" if epsilon > 0 else ""


def _useful(subject: Subject) -> str:
    row = subject.row("controls", metric="perplexity_heldout")
    if row is None:
        return "Not measured."
    name = perplexity_name(subject.run.spec.model.kind)
    said = f"{name.capitalize()} on held-out notes {figure_text('perplexity_heldout', row['value'])} "
    said += f"({interval_text(row['low'], row['high'], lambda end: figure_text('perplexity_heldout', end))})"
    if math.isnan(row["base_value"]):
        return f"{said}; lower is more useful.{_known_words(subject.run)}"
    said += f", of the public model {figure_text('perplexity_heldout', row['base_value'])}; lower is better."
    return said + _known_words(subject.run)


def _known_words(run: Run) -> str:
    """How many of the words that it wrote exist, after a blank; empty if that was not measured."""
    at = run.metrics.set_index(["metric", "arm"])
    if (KNOWN_WORDS, "run") not in at.index or math.isnan(at.loc[(KNOWN_WORDS, "run"), "value"]):
        return ""
    value, low, high = (figure_text(KNOWN_WORDS, float(at.loc[(KNOWN_WORDS, "run"), end])) for end in ENDS)
    said = f" Of the words that it wrote {value} are known ({low} to {high})"
    if (KNOWN_WORDS, "base") not in at.index:
        return f"{said}."
    public = figure_text(KNOWN_WORDS, float(at.loc[(KNOWN_WORDS, "base"), "value"]))
    return f"{said}, of the public model's {public}."
