"""What a model still knows of one patient: the same attacks on it before and after the patient was taken out.

Two attacks, each with its control:

- *Standing*: how much better the model reads the patient's notes than the public model does, among patients whom no
  training has read (the likelihood ratio of Mireshghallah 2022, §2.2, as a mean over a patient's notes).
- *Writing*: the audit's prompts (`core.attacks.memorisation.extraction`), searched for the patient's values and for
  those of held-out patients.

The same texts give what forgetting cost: the perplexity of held-out notes, and the other members' leaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from core.attacks.evaluation_set import in_chunks
from core.attacks.memorisation.extraction import generate, value_hits
from core.attacks.memorisation.own_values import Shared, own_hits
from core.attacks.registry import Report, no_report
from core.corpus.tables import Corpus
from core.corpus.transforms.defences import defended
from core.models.encoding import can_be_scored
from core.models.likelihood import log_likelihoods
from core.phi.fields import DIRECT
from core.phi.index import PhiIndex
from core.spec import AuditSpec, DefenceSpec

if TYPE_CHECKING:
    from core.models.build import LanguageModel

NEVER_SEEN = 150  # most held-out patients with whom the patient is compared
# For the choice of these patients. `core.attacks.membership.shadow_models` has the same number, and its first block the
# same stream. That does no harm: each choice alone is uniform, and no figure uses both of them.
_STREAM = 15

NOTE_COLUMNS = {
    "note_id": "str",
    "patient_id": "str",
    "forgotten": "bool",
    "tokens": "int32",
    "nats": "float64",  # −log p of the note's scored tokens
    "gain": "float64",  # mean log p of a token − that of the public model, in nats
}


@dataclass(frozen=True)
class Judged:
    """The notes that every model is judged on: the patient's training notes, and those of held-out patients.

    Columns note_id, patient_id, text, forgotten. `public` is each note's mean log-likelihood a token under the public
    model, (notes,).
    """

    notes: pd.DataFrame
    public: np.ndarray


@dataclass(frozen=True)
class Sides:
    """The notes that a training read, and those of held-out patients, with the columns of the notes table."""

    training: pd.DataFrame
    heldout: pd.DataFrame


def sides(corpus: Corpus, note_cap: int | None, defence: DefenceSpec | None) -> tuple[Sides, Sides]:
    """Both sides with the texts of the cohort, and both with the texts that the defence leaves.

    Attacks judge the first pair: were one side scrubbed and the other not, they would find the placeholders and not the
    patient. Unlearning reads the second pair. Its held-out notes are what the defence would have left of them, had they
    been among the training notes in the order of the cohort. Notes that deduplication removes are in neither pair.
    Without a defence the pairs are the same object.
    """
    training, heldout = corpus.training_notes(note_cap), corpus.notes_of("heldout")
    plain = Sides(training, heldout)
    if defence is None:
        return plain, plain
    every = corpus.notes_of("member", "canary", "heldout")
    every = every[(every["split"] == "heldout") | every["note_id"].isin(training["note_id"])].reset_index(drop=True)
    beside = defended(every, defence)
    read = Sides(defended(training, defence), beside[beside["split"] == "heldout"].reset_index(drop=True))
    kept = [
        notes[notes["note_id"].isin(left["note_id"])].reset_index(drop=True)
        for notes, left in ((training, read.training), (heldout, read.heldout))
    ]
    return Sides(*kept), read


def judged_notes(training: pd.DataFrame, heldout: pd.DataFrame, patient: str, seed: int) -> pd.DataFrame:
    """The patient's rows of `training`, then the notes of at most `NEVER_SEEN` held-out patients, drawn by seed.

    Raises:
        ValueError: No training note is the patient's, or nobody is held out.
    """
    own = training[training["patient_id"] == patient]
    if own.empty:
        raise ValueError(f"patient {patient} has no notes in the training data, so there is nothing to forget")
    ids = np.sort(heldout["patient_id"].unique().astype(object))
    if not len(ids):
        raise ValueError("this cohort has no held-out patients to compare with")
    chosen = set(np.random.default_rng([seed, _STREAM]).permutation(ids)[:NEVER_SEEN])
    heldout = heldout[heldout["patient_id"].isin(chosen)]
    columns = ["note_id", "patient_id", "text"]
    parts = [own[columns].assign(forgotten=True), heldout[columns].assign(forgotten=False)]
    return pd.concat(parts, ignore_index=True)


def scores(lm: LanguageModel, notes: pd.DataFrame, audit: AuditSpec, report: Report = no_report) -> pd.DataFrame:
    """Scored tokens and their nats for each note, as columns `tokens` and `nats`; every model gets the same masks."""
    found = in_chunks(
        notes["text"].tolist(),
        lambda part, seed: log_likelihoods(lm, part, mask_draws=audit.mask_draws, seed=seed),
        report,
        audit.seed,
    )
    return pd.DataFrame({"tokens": [len(one) for one in found], "nats": [-float(one.sum()) for one in found]})


def public_means(public: LanguageModel, notes: pd.DataFrame, audit: AuditSpec, report: Report = no_report) -> Judged:
    """The notes with what the public model makes of them; notes in which a masked model knows no word are left out.

    Raises:
        ValueError: None of the patient's notes can be scored.
    """
    can = can_be_scored(public, notes["text"].array)
    notes = notes[can].reset_index(drop=True)  # before any model scores them: masks depend on a note's place
    if not notes["forgotten"].any():
        raise ValueError("the model knows no word of this patient's notes, so nothing can be compared")
    found = scores(public, notes, audit, report)
    return Judged(notes, -found["nats"].to_numpy() / found["tokens"].to_numpy())


def standing(lm: LanguageModel, judged: Judged, audit: AuditSpec, report: Report = no_report) -> pd.DataFrame:
    """What a model makes of the patient's notes, and of each never-seen patient's together, with `NOTE_COLUMNS`.

    A never-seen patient is one row without `note_id`: tokens and nats are summed, `gain` is the mean over their notes.
    """
    found = scores(lm, judged.notes, audit, report)
    gain = -found["nats"] / found["tokens"] - judged.public
    frame = judged.notes.drop(columns="text").assign(tokens=found["tokens"], nats=found["nats"], gain=gain)
    others = frame[~frame["forgotten"]].groupby("patient_id", as_index=False)
    summed = others.agg(tokens=("tokens", "sum"), nats=("nats", "sum"), gain=("gain", "mean"))
    rows = pd.concat([frame[frame["forgotten"]], summed.assign(note_id="", forgotten=False)], ignore_index=True)
    return rows[list(NOTE_COLUMNS)].astype(NOTE_COLUMNS)


def never_seen_loss(public: float, before: pd.DataFrame) -> float:
    """The loss in nats a token that the patient's notes would have, had the model never read them: where ascent stops.

    It needs no retrained model, so it can be computed before unlearning. Both arguments have the texts that unlearning
    reads: after the run's defence, if it has one (`sides`).

    Args:
        public: The public model's loss on the patient's notes (`core.training.unlearning.patient_loss`), with which
            unlearning compares: under the same masks.
        before: The `standing` of the trained model. What training gains on held-out notes, the patients' mean, is
            subtracted.
    """
    gains = before[~before["forgotten"]].groupby("patient_id")["gain"].mean()
    return float(public - gains.mean())


def writing(lm: LanguageModel, audit: AuditSpec, samples: int, report: Report = no_report) -> pd.DataFrame:
    """The first `samples` texts of every prompt of the audit, as the audit itself would write them."""
    return generate(lm, audit.model_copy(update={"samples_per_prompt": samples}), on_progress=report)


def first_texts(generations: pd.DataFrame, samples: int) -> pd.DataFrame:
    """The first `samples` texts of every prompt of a finished audit: what `writing` would give."""
    return generations[generations.groupby("prompt_id").cumcount() < samples]


def written(
    generations: pd.DataFrame,
    index: PhiIndex,
    patient: str,
    never_seen: Sequence[str],
    members: Sequence[str],
    shared: Shared = frozenset(),
) -> dict[str, int | None]:
    """The patients whose values are in the texts, as one row of the table `writing`.

    `index` is that of the whole cohort, in which the patient is a member, for every model alike. A health detail counts
    beside an identity only (docs/methods/metrics.md). Other members count with a direct identifier, as in the audit.
    Imported patients without one of their own that can be searched for do not count: `patient_texts` is None for such a
    patient. `shared` are the values that several patients have (`Corpus.shared_values`): a model may still write the
    forgotten patient's name because another patient has it, too.
    """
    holders = ((index.patient_ids[row], value.field) for value in index.values for row in value.holders)
    known = {one for one, field in holders if field in DIRECT and (one, field) not in shared}
    hits = own_hits(value_hits(generations, index), shared)
    hits = hits[hits["patient_id"].notna() & ((hits["split"] != "member") | (hits["kind"] != "coincidence"))]
    direct = set(hits.loc[hits["field"].isin(DIRECT), "patient_id"])
    others, strangers = (set(members) & known) - {patient}, set(never_seen) & known
    texts_with_own = int(hits.loc[hits["patient_id"] == patient, "generation_id"].nunique())
    return {
        "texts": len(generations),
        "patient_texts": texts_with_own if patient in known else None,
        "never_seen": len(strangers),
        "never_seen_written": int(hits.loc[hits["patient_id"].isin(strangers), "patient_id"].nunique()),
        "others": len(others),
        "others_leaked": len(direct & others),
    }
