"""The sentences of the page Forget a patient."""

from __future__ import annotations

import pandas as pd

from core.attacks.forgetting import NEVER_SEEN
from core.evaluation.wording import NBSP, percent, perplexity_name, perplexity_text, signed
from core.pipeline.forgetting import APPROXIMATE, ORIGINAL, PRIVATE, PUBLIC, RETRAINED, Comparison
from pages.parts.common.phi_text import literal
from pages.parts.pickers import run_picker

EASY = 0.75  # a place above which other patients' notes are said to help with these
CLOSE = 0.5  # standard deviations: nearer than this to the retrained model counts as the same place

HOW = f"""
**The place of the patient.** For each note, the mean log-probability of its tokens under the model, less that under the
public model (the likelihood ratio of Mireshghallah et al. 2022). A patient's value is the mean over their notes. The
place is the share of held-out patients, on whom no model here was trained, with a smaller value, ties ½; its interval
is Wilson's. For a patient drawn at random on whom the model was not trained, every place from 0 to 100 % is equally
likely. The picture counts in standard deviations of the held-out patients above their mean, so that models can be
compared.

**Gradient ascent** takes small steps away from the patient's notes (Jang et al. 2023). **Fine-tuning** trains on the
other members' notes and hopes that the patient's fade. **Both at once** lowers the others' loss and raises the
patient's (“gradient difference”, Liu et al. 2022). The first and the last stop as soon as the patient's notes are
predicted as badly as if they had been held out: at the public model's loss on them, less what training gains on
held-out notes.

**Training again** uses the same settings and the same seed, and leaves the patient's notes out. It is exact: the model
is the one that would exist without their notes. **DP** is a private run on the same notes, with the patient in it.

**Texts** are the first of the audit's own, from its 14 prompts. A text counts if it holds a value of the patient.
The table
also has how many held-out patients have a value in any text (people share values); that counts people, not texts.

**Perplexity** is that of the notes of the held-out patients in the picture, at most {NEVER_SEEN}, with an interval over
patients. `docs/methods/forgetting.md` has the formulas.
"""


def names(found: Comparison) -> dict[str, str]:
    """Each model in a few words."""
    private = "DP" if found.private is None else f"DP, {run_picker.privacy_label(found.private).split(' · ')[0]}"
    return {
        PUBLIC: "public model",
        ORIGINAL: "as trained",
        "ascent": "gradient ascent",
        "fine-tuning": "fine-tuned on the others",
        "difference": "both at once",
        RETRAINED: "trained again without them",
        PRIVATE: private,
    }


def texts_about(count: int) -> str:
    """In how many texts of the audit the patient is."""
    texts = "1 text of this model's audit contains" if count == 1 else f"{count:,} texts of this model's audit contain"
    return f"{texts} a detail of this patient."


def headline(table: pd.DataFrame, patient: str, named: dict[str, str], *, going: bool = False) -> str:
    """Where the patient stands in each model, in a few sentences; `going` if the models are being made."""
    rows = table.set_index("arm")
    who = f"patient {literal(patient)}"  # uploaded notes may have bare numbers as ids
    if ORIGINAL not in rows.index:
        waiting = "The picture is drawn as soon as the first model is scored." if going else "Press **Forget now**."
        return f"Nothing has been measured for {who} yet. {waiting}"
    own = rows.loc[ORIGINAL]
    others = int(own["compared"])
    told = [
        f"As trained, the model has gained more on {who}'s notes, compared with the public model, than on those of "
        f"**{percent(own['percentile'])}** of {others} held-out patient{'s' * (others != 1)}."
    ]
    after = [
        f"{named[arm]} **{percent(rows.loc[arm, 'percentile'])}** ({rows.loc[arm, 'seconds']:.0f}{NBSP}s)"
        for arm in APPROXIMATE
        if arm in rows.index
    ]
    if after:
        told.append(f"After unlearning: {', '.join(after)}.")
    if RETRAINED in rows.index:
        told.append(f"A model trained again without {who}: **{percent(rows.loc[RETRAINED, 'percentile'])}**.")
    return " ".join(told)


def verdict(table: pd.DataFrame, patient: str, named: dict[str, str]) -> str:
    """Whether each unlearned model stands where the model that was not trained on the patient stands."""
    rows = table.set_index("arm")
    made = [arm for arm in APPROXIMATE if arm in rows.index]
    if not made or not all(rows.loc[arm, "spread"] > 0 for arm in made):
        return ""
    if RETRAINED not in rows.index:
        return (
            "A place in the middle does not show that the patient is forgotten: a patient on whom no model was trained "
            "can be anywhere among the grey points. Train the model again without them to see where they belong."
        )
    gaps = {arm: deviations(rows.loc[arm]) - deviations(rows.loc[RETRAINED]) for arm in made}
    groups = {
        "their notes are still predicted too well": [arm for arm in made if gaps[arm] > CLOSE],
        "their notes are now predicted too badly": [arm for arm in made if gaps[arm] < -CLOSE],
        "their notes are predicted about as well as by that model": [arm for arm in made if abs(gaps[arm]) <= CLOSE],
    }
    told = [
        f"{' and '.join(f'{named[arm]} ({signed(gaps[arm], 2)})' for arm in arms)}: **{words}**"
        for words, arms in groups.items()
        if arms
    ]
    easy = rows.loc[RETRAINED, "percentile"]
    known = (
        f" Even that model gains more on their notes than on those of {percent(easy)} of held-out patients."
        if easy >= EASY
        else ""
    )
    return (
        f"Compared with the model trained without patient {literal(patient)}, "
        "in standard deviations of the grey points: "
        f"{'; '.join(told)}.{known}"
    )


def deviations(row: pd.Series) -> float:
    """How many standard deviations of held-out patients the patient stands above their mean."""
    return float((row["gain"] - row["mean"]) / row["spread"])


def no_picture(table: pd.DataFrame) -> str:
    """Why the patient's places are not drawn; empty if they are."""
    drawn = table[table["arm"] != PUBLIC]
    if drawn.empty or drawn["spread"].notna().any():
        return ""
    return "The picture counts in standard deviations of held-out patients, so it needs at least two of them."


def cost(table: pd.DataFrame, kind: str, named: dict[str, str]) -> str:
    """What the approximate methods cost everybody else."""
    rows = table.set_index("arm")
    made = [arm for arm in APPROXIMATE if arm in rows.index]
    if ORIGINAL not in rows.index or not made:
        return ""
    before = perplexity_text(rows.loc[ORIGINAL, "perplexity"])
    after = ", ".join(f"{perplexity_text(rows.loc[arm, 'perplexity'])} ({named[arm]})" for arm in made)
    return f"What it cost: {perplexity_name(kind)} of held-out notes was {before}, and is now {after}; lower is better."


def against_retrained(told: dict, named: dict[str, str]) -> str:
    """What the test against retrained models found, beside what the average attack says."""
    rows = {one["arm"]: one for one in told["arms"]}
    made = [rows[arm] for arm in APPROXIMATE if arm in rows]
    size = made[0]["patients"]
    found = ", ".join(f"{named[one['arm']]} **{round(one['odd'] * size)} of {size}**" for one in made)
    places = ", ".join(f"{percent(one['place'])} ({named[one['arm']]})" for one in made)
    return (
        f"{size} patients were each removed from this model, one at a time. Each time the unlearned model was compared "
        "with two models trained without the patient: which is the odd one out? If unlearning were as good as "
        "training without them, it would be the unlearned model in a third of the cases. It was: "
        f"{found}. An average can hide this: the patients' mean place among held-out patients is {places}, where "
        "50\u00a0% is that of patients the model was not trained on. All of them are compared with the same two "
        "models, so they are not independent trials."
    )
