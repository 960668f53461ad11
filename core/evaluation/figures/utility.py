"""Records of the figures of what a model is good for, beside perplexity (docs/methods/utility.md)."""

from __future__ import annotations

from typing import Any

from core.evaluation.figures.audit import PATIENTS_RESAMPLED, SHARES
from core.evaluation.figures.record import AUC, SHARE, Chart, Figure

SINCE = 2
NO_REPEATS = 5  # shuffled facts: a sentence no longer gets the same fact twice
ENTITIES, INFERENCE, TEXTS = "Entity extraction", "Inference", "Quality of texts"
TEXTS_RESAMPLED = "generated texts resampled, expanded percentiles (Hesterberg 2015)"
_ROWS = "core.evaluation.utility.summary"


def _useful(key: str, label: str, explanation: str, formula: str, **more: Any) -> Figure:
    facts: dict[str, Any] = {
        "unit": "share",
        "number": SHARE,
        "range": SHARES,
        "better": "higher",
        "interval": PATIENTS_RESAMPLED,
        "source": "",
        "controls": ("public base model",),
        "leak": False,
        "since": SINCE,
    }
    return Figure(key=key, label=label, explanation=explanation, formula=formula, **{**facts, **more})


def _entities(key: str, label: str, explanation: str, formula: str, **more: Any) -> Figure:
    facts: dict[str, Any] = {
        "section": ENTITIES,
        "source": "Hoory 2021, §4 (the task); Tjong Kim Sang & De Meulder 2003 (the count)",
        "rows": f"{_ROWS}:entity_figures",
    }
    return _useful(key, label, explanation, formula, **{**facts, **more})


UTILITY_FIGURES: tuple[Figure, ...] = (
    _entities(
        "entity_f1",
        "entities (F1)",
        "How well problems, tests and treatments are found in notes of patients the model never saw, by a small head "
        "on its vectors. An entity counts only if both ends and its type are right. Masked models only.",
        "2 · correct / (entities + tagged), all types together",
        title="entities found, F1",
        chart=Chart(6, "entity F1", floor=0.6, ceiling=0.8, shows="usefulness"),
    ),
    _entities(
        "entity_precision", "entities (precision)", "Share of the tagged entities that are right.", "correct / tagged"
    ),
    _entities(
        "entity_recall",
        "entities (recall)",
        "Share of the entities in the notes that were found.",
        "correct / entities",
    ),
    _entities(
        "entity_type_f1",
        "entities of one type (F1)",
        "The same F1 for problems, tests or treatments alone.",
        "the same for one type",
        member=str,
    ),
    _useful(
        "nli_accuracy",
        "inference (accuracy)",
        "How often a small head on the model's vectors says rightly whether a note entails a claim, contradicts it or "
        "leaves it open. Guessing is right in a third of the cases.",
        "right answers / claims, on notes of held-out patients",
        source="Romanov & Shivade 2018 (MedNLI); Jagannatha 2021, §5.2",
        section=INFERENCE,
        blind=1 / 3,
        controls=("public base model", "a head that saw the claim alone"),
        rows=f"{_ROWS}:inference_figures",
        title="claims about a note judged right",
        chart=Chart(7, "inference", floor=0.3, ceiling=0.7, shows="usefulness", chance="nli_claim_only"),
    ),
    _useful(
        "nli_claim_only",
        "inference without the note",
        "The same for a head that saw the claims and not the notes. Each claim is true, false and open equally often, "
        "so it is right in exactly a third of the cases.",
        "the same, on vectors of the claims alone",
        source="Gururangan et al. 2018",
        section=INFERENCE,
        blind=1 / 3,
        rows=f"{_ROWS}:inference_figures",
    ),
    _useful(
        "facts_fit",
        "facts that fit",
        "Share of the generated sentences with two facts or more (diseases, drugs, tests, symptoms) whose facts all "
        "belong to one disease group. Real notes do not reach 100 %: some name a second disease.",
        "sentences whose facts share a disease group / sentences with at least two different facts",
        unit="share of sentences",
        interval=f"{TEXTS_RESAMPLED}; held-out notes: patients",
        section=TEXTS,
        controls=("held-out notes", "public base model", "the same facts shuffled"),
        control_label="held-out notes",
        rows=f"{_ROWS}:sentence_figures",
        title="sentences whose facts fit together",
        chart=Chart(4, "facts that fit", ceiling=0.6, shows="usefulness", chance="facts_fit_shuffled"),
    ),
    _useful(
        "facts_fit_shuffled",
        "the same facts shuffled",
        "The same after the facts were dealt at random among the model's sentences, none twice in one: what chance "
        "gives. Most runs that came with the software were dealt with repeats, so theirs is too high: by about half "
        "with 100 to 500 sentences, by more with fewer.",
        "mean of the same over 20 shuffles of the facts, without repeats within a sentence",
        unit="share of sentences",
        interval=TEXTS_RESAMPLED,
        section=TEXTS,
        controls=("public base model",),
        rows=f"{_ROWS}:sentence_figures",
        since=NO_REPEATS,
    ),
    _useful(
        "text_similarity",
        "likeness to held-out notes",
        "How close texts that the model writes without a prompt are to notes of held-out patients, from 0 to 1, by the "
        "topics and forms that the public base model tells apart. GPT-2 only.",
        "area under the divergence curve over k-means clusters, c = 5",
        unit="area",
        number=AUC,
        interval="generated texts and patients resampled, expanded percentiles (Hesterberg 2015)",
        source="Pillutla et al. 2021, eq. 2–4",
        section=TEXTS,
        controls=("notes of other held-out patients", "public base model"),
        control_label="notes of other held-out patients",
        rows=f"{_ROWS}:text_figures",
        title="likeness of its texts to held-out notes",
        chart=Chart(5, "likeness", ceiling=1.0, shows="usefulness"),
    ),
)
