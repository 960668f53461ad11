"""The sum of a ledger: what was promised so far to one note, and to one patient.

Promises for notes and for patients speak of different neighbours and do not add up, so each unit has its own total.
What both come to for one patient and for one note, `together` says: the first by exact accounting for all notes of the
patient (core.training.accounting.group_privacy), the second by group privacy.
Runs compose by their privacy losses (core.training.accounting.composition), vocabularies by basic composition (ε and δ
added). A total is infinite, and says why, where a release has no privacy or where its noise has a public seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.common.formatting import REPRODUCIBLE, delta_text, promised_text
from core.corpus.tables import Corpus
from core.runs.ledger.entries import Release
from core.spec import Accountant, Unit
from core.training.accounting.composition import composed_epsilon
from core.training.accounting.gaussian import group_epsilon
from core.training.accounting.group_privacy import patient_epsilon
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.room import room

DELTA = 1e-5  # at which totals are told unless another is asked for
EMPTY = 100.0  # an ε beyond which a promise is told as none
NOTHING = 0.5  # a promise that may fail as often as this is told as none


@dataclass(frozen=True)
class Promised:
    """A unit's total at `delta`.

    `epsilon` is ∞ where `reasons` (sentences) say why. `if_independent` is the composed ε whatever the reasons: what
    would hold for the private releases alone, had each drawn secret noise. `added` is the plain sum of their ε.
    `accountant` gave the composed part. With no `releases` of its own a unit's `epsilon` is 0, which speaks of nothing:
    what the other unit's releases mean for it is `for_patient`'s and `for_note`'s to say, and `together` says it.
    """

    unit: Unit
    delta: float
    releases: int
    epsilon: float
    if_independent: float
    added: float
    accountant: Accountant
    reasons: tuple[str, ...]


def promised(releases: Sequence[Release], unit: Unit, delta: float = DELTA) -> Promised:
    """The total of one unit over a cohort's releases. Raises ValueError for a δ outside (0, 1).

    Releases without privacy count for every unit; those that protect the other unit are left to `for_patient` and
    `for_note`.
    """
    if not 0 < delta < 1:
        raise ValueError(f"δ must lie between 0 and 1, not {delta}")
    own = [release for release in releases if release.unit == unit]
    mechanisms = [release.mechanism for release in own if release.mechanism is not None]
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
        composed, by = math.inf, "prv"
    else:
        composed, by = composed_epsilon(mechanisms, left)
    independent = composed + sum(spent for spent, _ in words)
    added = sum(one.epsilon() for one in mechanisms) + sum(spent for spent, _ in words)
    return Promised(
        unit=unit,
        delta=delta,
        releases=len(own),
        epsilon=math.inf if reasons else independent,
        if_independent=independent,
        added=added,
        accountant=by,
        reasons=tuple(reasons),
    )


def room_left(releases: Sequence[Release], unit: Unit, budget: float, delta: float = DELTA) -> Mechanism | None:
    """One more run like the unit's last that keeps `promised` within (budget, `delta`); None where nothing fits.

    Vocabularies have had their share of both (basic composition), so runs together may spend what is left. The answer's
    own ε is told at the whole `delta`, as the other entries'. Speaks of the unit's own releases alone. Raises
    ValueError where the unit has no run to be like, or has no finite total.
    """
    mechanisms = mechanisms_of(releases, unit)
    if not mechanisms or promised(releases, unit, delta).reasons:
        raise ValueError(f"there is room for one {unit} only where a run was released and the total is finite")
    words = _vocabularies([release for release in releases if release.unit == unit])
    left, left_delta = budget - sum(spent for spent, _ in words), delta - sum(share for _, share in words)
    if left <= 0 or left_delta <= 0:
        return None
    found = room(mechanisms, mechanisms[-1], left, left_delta)
    return found and found.model_copy(update={"delta": delta})


def mechanisms_of(releases: Sequence[Release], unit: Unit) -> list[Mechanism]:
    """The mechanisms of one unit's runs."""
    return [one.mechanism for one in releases if one.unit == unit and one.mechanism is not None]


def _vocabularies(releases: Sequence[Release]) -> list[tuple[float, float]]:
    """(ε, δ) of each released vocabulary, for one unit."""
    return [release.vocabulary.guarantee() for release in releases if release.vocabulary is not None]


def _without_privacy(releases: Sequence[Release]) -> list[str]:
    return [
        f"{release.name} was trained without privacy: whoever has it may learn anything about anybody."
        for release in releases
        if release.unit is None
    ]


def _public_noise(releases: Sequence[Release]) -> list[str]:
    """Entries of older versions. Who has such a model draws its noise again, whatever unit it was to protect."""
    return [
        f"{release.name} took its noise from a public seed, so that anyone can draw it again ({REPRODUCIBLE}): nothing "
        "is promised to anybody."
        for release in releases
        if release.mechanism is not None and release.mechanism.noise_source != "secret"
    ]


@dataclass(frozen=True)
class Together:
    """What the releases of both units promise to one: (ε, δ). A huge ε or a δ near 1 promises nothing."""

    unit: Unit
    epsilon: float
    delta: float
    notes: int | None  # of the patient with the most, who is spoken of

    def sentence(self) -> str:
        """What it promises, in words."""
        whom = "one note" if self.notes is None else f"the patient with the most notes ({self.notes:,})"
        nothing = self.epsilon > EMPTY or self.delta >= NOTHING
        promise = "nothing at all" if nothing else f"ε = {promised_text(self.epsilon)} at δ = {delta_text(self.delta)}"
        return f"For {whom} all of it together promises {promise}."


def together(releases: Sequence[Release], note: Promised, patient: Promised, corpus: Corpus) -> list[Together]:
    """What everything released of `corpus` promises one patient and one note, from the units' totals.

    Only of a unit whose own total leaves releases out: there that total is no answer. Nothing where both totals are
    infinite anyway.
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
    """Most notes of one patient that any of the releases which protect notes may have read (row J7).

    A run reads at most so many of a patient; an entry that does not say how many may have read all.
    """
    limits = [release.most_notes for release in releases if release.unit == "note"]
    known = [limit for limit in limits if limit is not None]
    cap = max(known, default=1) if len(known) == len(limits) else len(corpus.notes)
    return int(corpus.training_notes(max(1, cap)).groupby("patient_id").size().max())


def for_patient(releases: Sequence[Release], note: Promised, patient: Promised, notes: int) -> tuple[float, float]:
    """(ε, δ) of everything together for a patient with at most `notes` notes.

    The runs that protect notes are composed for `notes` of them (`core.training.accounting.group_privacy`);
    vocabularies that were released by themselves are added by the group formula, and the patients' own total by basic
    composition.
    """
    group, group_delta = (0.0, 0.0) if note.releases == 0 else _of_notes(releases, note, notes)
    own = (patient.epsilon, patient.delta) if patient.releases else (0.0, 0.0)
    epsilon = math.inf if note.reasons or patient.reasons else group + own[0]
    return epsilon, min(1.0, group_delta + own[1])


def for_note(note: Promised, patient: Promised) -> tuple[float, float]:
    """(ε, δ) of everything together for one note.

    Two data sets that differ in a note differ in one patient's notes: take the patient out, put them back changed. That
    is twice the promise for a patient (group privacy with k = 2), added to the notes' own total.
    """
    group, group_delta = (0.0, 0.0) if patient.releases == 0 else _group(patient, 2)
    own = (note.epsilon, note.delta) if note.releases else (0.0, 0.0)
    epsilon = math.inf if note.reasons or patient.reasons else group + own[0]
    return epsilon, min(1.0, group_delta + own[1])


def _of_notes(releases: Sequence[Release], note: Promised, notes: int) -> tuple[float, float]:
    """(ε, δ) of the releases that protect notes, for `notes` notes of one patient."""
    if math.isinf(note.epsilon):
        return math.inf, 1.0
    words = [group_epsilon(*spent, notes) for spent in _vocabularies([one for one in releases if one.unit == "note"])]
    runs = patient_epsilon(mechanisms_of(releases, "note"), notes, note.delta)
    return runs + sum(spent for spent, _ in words), min(1.0, note.delta + sum(share for _, share in words))


def _group(total: Promised, k: int) -> tuple[float, float]:
    return group_epsilon(total.epsilon, total.delta, k) if math.isfinite(total.epsilon) else (math.inf, 1.0)
