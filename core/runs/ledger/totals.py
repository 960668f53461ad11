"""The totals of a ledger: what was promised so far to one note, and to one patient.

Promises for notes and for patients are about different neighbours and do not add up, so each unit has its own total.
`together` says what both amount to for one patient and for one note: the first by exact accounting for all notes of the
patient (core.training.accounting.group_privacy), the second by group privacy. Runs compose by their privacy losses
(core.training.accounting.composition), vocabularies by basic composition (ε and δ added). If one of a unit's runs was
the best of several runs, the Rényi divergences of all its runs are added instead
(core.training.accounting.chosen_composition). A total is infinite, with the reason, if a release has no privacy or its
noise has a public seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.common.formatting import REPRODUCIBLE, delta_text, promised_text
from core.corpus.tables import Corpus, notes_by_patient
from core.runs.ledger.entries import Release
from core.spec import Accountant, Unit
from core.training.accounting.chosen_composition import Chosen, total_epsilon, total_patient_epsilon
from core.training.accounting.gaussian import group_epsilon
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.room import room

DELTA = 1e-5  # δ of totals unless another is requested
EMPTY = 100.0  # above this ε a promise is reported as none
NOTHING = 0.5  # a promise that may fail with at least this probability is reported as none


@dataclass(frozen=True)
class Promised:
    """A unit's total at `delta`.

    `epsilon` is ∞ if there are `reasons` (sentences). `if_independent` is the composed ε whatever the reasons: what
    would hold for the private releases alone, had each used secret noise. `added` is the plain sum of their ε.
    `accountant` computed the composed part: PRV, or RDP if `choices` (number of runs that were the best of several) is
    not 0 or PRV has no answer. Without `releases` of its own, a unit's `epsilon` is 0, which says nothing:
    `for_patient` and `for_note` compute what the other unit's releases mean for it, and `together` states it.
    """

    unit: Unit
    delta: float
    releases: int
    epsilon: float
    if_independent: float
    added: float
    accountant: Accountant
    choices: int
    reasons: tuple[str, ...]

    def accounting(self) -> str:
        """How the runs were composed, in words."""
        if not self.choices:
            return f"composed by {self.accountant.upper()}"
        which = f"{self.choices:,} of them were"
        if self.choices == 1:
            which = "the run was" if self.releases == 1 else "one of them was"
        return f"added up by Rényi divergences (RDP), because {which} chosen among several runs"


def promised(releases: Sequence[Release], unit: Unit, delta: float = DELTA) -> Promised:
    """The total of one unit over a cohort's releases.

    Releases without privacy count for every unit; those that protect the other unit are left to `for_patient` and
    `for_note`.

    Raises:
        ValueError: δ lies outside (0, 1).
    """
    if not 0 < delta < 1:
        raise ValueError(f"δ must lie between 0 and 1, not {delta}")
    own = [release for release in releases if release.unit == unit]
    mechanisms, chosen = runs_of(own, unit)
    words = _vocabularies(own)
    reasons = [*_without_privacy(releases), *_public_noise(releases)]
    left = delta - sum(share for _, share in words)
    composed: float
    by: Accountant
    if left <= 0:
        reasons.append(
            f"The vocabularies alone may fail with probability {sum(share for _, share in words):.2g}, which is not "
            f"below δ = {delta_text(delta)}."
        )
        composed, by = math.inf, "rdp" if chosen else "prv"
    else:
        composed, by = total_epsilon(mechanisms, chosen, left)
    independent = composed + sum(spent for spent, _ in words)
    added = sum(one.epsilon() for one in own if one.mechanism is not None) + sum(spent for spent, _ in words)
    return Promised(
        unit=unit,
        delta=delta,
        releases=len(own),
        epsilon=math.inf if reasons else independent,
        if_independent=independent,
        added=added,
        accountant=by,
        choices=len(chosen),
        reasons=tuple(reasons),
    )


def room_left(releases: Sequence[Release], unit: Unit, budget: float, delta: float = DELTA) -> Mechanism | None:
    """One more run like the unit's last that keeps `promised` within (budget, `delta`); None if nothing fits.

    Vocabularies have used their share of both (basic composition), so runs together may spend what is left. The
    result's own ε is given at the whole `delta`, like the other entries'. Only the unit's own releases are considered.
    The one more run is one training, also if the last was the best of several.

    Raises:
        ValueError: The unit has no run to take as a model, or no finite total.
    """
    last = mechanisms_of(releases, unit)
    if not last or promised(releases, unit, delta).reasons:
        raise ValueError(f"room for one {unit} can be computed only after a run was released and with a finite total")
    words = _vocabularies([release for release in releases if release.unit == unit])
    left, left_delta = budget - sum(spent for spent, _ in words), delta - sum(share for _, share in words)
    if left <= 0 or left_delta <= 0:
        return None
    mechanisms, chosen = runs_of(releases, unit)
    found = room(mechanisms, last[-1], left, left_delta, chosen)
    return found and found.model_copy(update={"delta": delta})


def mechanisms_of(releases: Sequence[Release], unit: Unit) -> list[Mechanism]:
    """The mechanisms of one unit's runs, chosen or not: of one training each."""
    return [one.mechanism for one in releases if one.unit == unit and one.mechanism is not None]


def runs_of(releases: Sequence[Release], unit: Unit) -> tuple[list[Mechanism], list[Chosen]]:
    """One unit's runs: the mechanisms of those that were the only training, and those that were the best of several."""
    own = [one for one in releases if one.unit == unit]
    alone = [one.mechanism for one in own if one.mechanism is not None and one.chosen is None]
    return alone, [one.chosen for one in own if one.chosen is not None]


def _vocabularies(releases: Sequence[Release]) -> list[tuple[float, float]]:
    """(ε, δ) of each released vocabulary, for one unit."""
    return [release.vocabulary.guarantee() for release in releases if release.vocabulary is not None]


def _without_privacy(releases: Sequence[Release]) -> list[str]:
    return [
        f"{release.name} was trained without privacy: anyone who has it may learn anything about anyone."
        for release in releases
        if release.unit is None
    ]


def _public_noise(releases: Sequence[Release]) -> list[str]:
    """Entries of older versions: anyone with such a model can generate its noise again, whatever unit it protected."""
    return [
        f"{release.name} took its noise from a public seed, so anyone can generate it again ({REPRODUCIBLE}): nothing "
        "is promised to anyone."
        for release in releases
        if release.mechanism is not None and release.mechanism.noise_source != "secret"
    ]


@dataclass(frozen=True)
class Together:
    """What the releases of both units promise to one unit: (ε, δ). A huge ε or a δ near 1 promises nothing."""

    unit: Unit
    epsilon: float
    delta: float
    notes: int | None  # number of notes of the patient with the most, whom this is about

    def sentence(self) -> str:
        """The promise in words."""
        whom = "one note" if self.notes is None else f"the patient with the most notes ({self.notes:,})"
        nothing = self.epsilon > EMPTY or self.delta >= NOTHING
        promise = "nothing at all" if nothing else f"ε = {promised_text(self.epsilon)} at δ = {delta_text(self.delta)}"
        return f"For {whom}, everything together promises {promise}."


def together(releases: Sequence[Release], note: Promised, patient: Promised, corpus: Corpus) -> list[Together]:
    """What everything released of `corpus` promises to one patient and to one note, from the units' totals.

    Only for a unit whose own total leaves releases out, and is therefore no answer. Empty if both totals are infinite
    anyway.
    """
    found: list[Together] = []
    if note.reasons and patient.reasons:
        return found
    if note.releases:
        notes = most_notes(releases, corpus)
        found.append(Together("patient", *for_patient(releases, note, patient, notes), notes))
    if patient.releases:
        found.append(Together("note", *for_note(note, patient), None))
    return found


def most_notes(releases: Sequence[Release], corpus: Corpus) -> int:
    """Largest number of notes of one patient that any release protecting notes may have read (Jagannatha 2021).

    A run may have a cap on the notes of a patient; an entry without one may have read all.
    """
    limits = [release.most_notes for release in releases if release.unit == "note"]
    known = [limit for limit in limits if limit is not None]
    cap = max(known, default=1) if len(known) == len(limits) else len(corpus.notes)
    return int(notes_by_patient(corpus.training_notes(max(1, cap))).max())


def for_patient(releases: Sequence[Release], note: Promised, patient: Promised, notes: int) -> tuple[float, float]:
    """(ε, δ) of everything together for a patient with at most `notes` notes.

    Runs that protect notes are composed for `notes` of them (`core.training.accounting.group_privacy`; with a choice,
    by Rényi divergences: `core.training.accounting.chosen_composition`). Vocabularies
    released by themselves are added by the group formula, and the patients' own total by basic composition.
    """
    group, group_delta = (0.0, 0.0) if note.releases == 0 else _of_notes(releases, note, notes)
    own = (patient.epsilon, patient.delta) if patient.releases else (0.0, 0.0)
    epsilon = math.inf if note.reasons or patient.reasons else group + own[0]
    return epsilon, min(1.0, group_delta + own[1])


def for_note(note: Promised, patient: Promised) -> tuple[float, float]:
    """(ε, δ) of everything together for one note.

    Two data sets that differ in a note differ in one patient's notes: remove the patient, then add them back changed.
    That is twice the promise for a patient (group privacy with k = 2), added to the notes' own total.
    """
    group, group_delta = (0.0, 0.0) if patient.releases == 0 else _twice(patient)
    own = (note.epsilon, note.delta) if note.releases else (0.0, 0.0)
    epsilon = math.inf if note.reasons or patient.reasons else group + own[0]
    return epsilon, min(1.0, group_delta + own[1])


def _of_notes(releases: Sequence[Release], note: Promised, notes: int) -> tuple[float, float]:
    """(ε, δ) of the releases that protect notes, for `notes` notes of one patient."""
    if math.isinf(note.epsilon):
        return math.inf, 1.0
    words = [group_epsilon(*spent, notes) for spent in _vocabularies([one for one in releases if one.unit == "note"])]
    runs = total_patient_epsilon(*runs_of(releases, "note"), notes, note.delta)
    return runs + sum(spent for spent, _ in words), min(1.0, note.delta + sum(share for _, share in words))


def _twice(total: Promised) -> tuple[float, float]:
    return group_epsilon(total.epsilon, total.delta, 2) if math.isfinite(total.epsilon) else (math.inf, 1.0)
