"""The membership attacks of the battery, as they are registered. Each writes rows of the `scores` table.

Every score points the same way: higher = more likely a member. Formulas and sources: docs/methods/membership.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from core.attacks.evaluation_set import (
    MASK_DRAWS,
    in_chunks,
    judged_notes,
    mean_log_likelihoods,
    moments,
    token_log_probabilities,
)
from core.attacks.membership.decision import ATTENTION, GRADIENTS, LOSS, RATIO
from core.attacks.membership.neighbours import neighbours
from core.attacks.membership.reference import POPULATION, SHADOWS
from core.attacks.membership.scores import SCORE_COLUMNS, min_k, min_k_plus_plus
from core.attacks.membership.white_box import (
    FOLDS,
    SMALLEST,
    attention_features,
    fitted_log_odds,
    folds,
    gradient_features,
)
from core.attacks.registry import (
    KINDS,
    MASKED,
    Access,
    Attack,
    Cost,
    NotPossible,
    Report,
    Tables,
    Target,
    register,
    register_table,
)
from core.models.build import load
from core.models.likelihood import note_losses, pseudo_log_likelihoods
from core.spec import ModelKind, ModelSpec

register_table("scores", SCORE_COLUMNS)
register_table("split_scores", {**SCORE_COLUMNS, "fit": "int32"})

K_SHARE = 0.20  # Min-K %: the least likely 20 % of tokens
NEIGHBOURS = 8
NEIGHBOUR_NOTES = 400  # dear attacks judge whole patients with about so many notes
PSEUDO_NOTES = 200
GRADIENT_NOTES = 2_500
_STREAM = 14


def scores_of(attack: str, notes: pd.DataFrame, score: np.ndarray) -> dict[str, pd.DataFrame]:
    """The `scores` table of one attack: one row a judged note. Raises ValueError for a score that is not a number."""
    if not np.isfinite(score).all():
        bad = int((~np.isfinite(score)).sum())
        raise ValueError(f"the attack “{attack}” gave {bad} of {len(score)} notes no finite score")
    keys = ["note_id", "admission_id", "patient_id", "split", "note_type", "tokens"]
    frame = notes[keys].assign(attack=attack, member=notes["split"] == "member", score=score)
    return {"scores": frame[list(SCORE_COLUMNS)].astype(SCORE_COLUMNS).reset_index(drop=True)}


# Loss and ratios -----------------------------------------------------------------------------------------------------


def _loss(target: Target, report: Report) -> Tables:
    return scores_of(LOSS, judged_notes(target), mean_log_likelihoods(target, "target", report))


def _ratio(role: str, target: Target, report: Report) -> Tables:
    """Row M1, eq. 1, turned to point up: mean log p under the target − mean log p under the reference."""
    own = mean_log_likelihoods(target, "target", report)
    return scores_of(f"ratio {role}", judged_notes(target), own - mean_log_likelihoods(target, role, report))


def relative_membership(own: np.ndarray, references: np.ndarray, of_population: np.ndarray) -> np.ndarray:
    """RMIA, offline (Zarifzadeh et al. 2024, eq. 4 with γ = 1): how many strangers look less like members, (n,).

    LR(x) = p(x | target) / mean_k p(x | reference k); the score is the share of population notes z with LR(x) > LR(z),
    ties ½. `own` (n,) and `references` (k, n) are mean log-likelihoods a token, `of_population` (n,) says which of the
    n are the z; a z is compared with the other z only.
    """
    ratios = own - (np.logaddexp.reduce(references, axis=0) - np.log(len(references)))
    strangers = np.sort(ratios[of_population])
    if len(strangers) < 2:
        raise NotPossible("RMIA compares notes with those of a population, and this cohort's has fewer than two notes")
    below = np.searchsorted(strangers, ratios, side="left")
    tied = np.searchsorted(strangers, ratios, side="right") - below - of_population
    return (below + tied / 2) / (len(strangers) - of_population)


def _rmia(target: Target, report: Report) -> Tables:
    notes = judged_notes(target)
    own = mean_log_likelihoods(target, "target", report)
    references = np.stack([mean_log_likelihoods(target, role, report) for role in (POPULATION, *SHADOWS)])
    population = (notes["split"] == "population").to_numpy()
    return scores_of("rmia", notes, relative_membership(own, references, population))


# One text's own measure of difficulty --------------------------------------------------------------------------------


def zlib_score(mean_log_probability: float, tokens: int, text: str) -> float:
    """Nats the model needs for each byte that zlib needs, turned to point up: tokens · mean log p / zlib bytes.

    Carlini et al. 2021, §5.2, for texts of any length: total nats, not nats a token, over the compressed length.
    """
    return tokens * mean_log_probability / len(zlib.compress(text.encode()))


def _zlib(target: Target, report: Report) -> Tables:
    notes, means = judged_notes(target), mean_log_likelihoods(target, "target", report)
    rows = zip(means, notes["tokens"], notes["text"], strict=True)
    return scores_of("zlib", notes, np.array([zlib_score(*row) for row in rows]))


def _min_k(target: Target, report: Report) -> Tables:
    found = token_log_probabilities(target, "target", report)
    return scores_of("min-k 20 %", judged_notes(target), np.array([min_k(one, K_SHARE) for one in found]))


def _min_k_plus_plus(target: Target, report: Report) -> Tables:
    found = [min_k_plus_plus(*one, K_SHARE) for one in moments(target, report)]
    return scores_of("min-k++ 20 %", judged_notes(target), np.array(found))


def _neighbourhood(target: Target, report: Report) -> Tables:
    """Mattern et al. 2023, eq. 3, turned to point up: mean loss of the neighbours − loss of the note.

    A masked model is asked for a note and its neighbours under the same masks: other masks would differ by more than
    a word does.
    """
    notes = judged_notes(target, NEIGHBOUR_NOTES)
    proposer = load(ModelSpec(kind="distilbert", size=target.spec.model.size))
    shared = target.lm.causal  # then a note's own loss is there already; a masked model's depends on the masks drawn
    texts, of_note = [], []
    for number, text in enumerate(notes["text"]):
        report(number, 2 * len(notes))
        rng = np.random.default_rng([target.spec.audit.seed, _STREAM, int(notes.index[number])])
        made = neighbours(proposer, text, NEIGHBOURS, rng)
        texts += made if shared else [text, *made]
        of_note += [number] * (len(made) if shared else 1 + len(made))
    losses: list[float] = []
    for start in range(0, len(texts), 10 * NEIGHBOURS):
        report(len(notes) + len(notes) * start // len(texts), 2 * len(notes))
        part = slice(start, start + 10 * NEIGHBOURS)
        losses += list(note_losses(target.lm, texts[part])) if shared else _masked(target, texts[part], of_note[part])
    table = pd.DataFrame({"note": of_note, "loss": losses})
    if shared:
        own = -mean_log_likelihoods(target, "target", report)[notes.index]
    else:
        first = ~table["note"].duplicated()
        own, table = table.loc[first, "loss"].to_numpy(), table[~first]
    mean = table.groupby("note")["loss"].mean().reindex(range(len(notes))).to_numpy()
    return scores_of("neighbourhood", notes, np.where(np.isnan(mean), 0.0, mean - own))  # no word to replace: no sign


def _masked(target: Target, texts: Sequence[str], of_note: Sequence[int]) -> list[float]:
    """A masked model's loss of each text, hidden by the masks of its note: those of a text that is scored alone."""
    return [
        float(note_losses(target.lm, [text], mask_draws=MASK_DRAWS, seed=target.spec.audit.seed + number)[0])
        for text, number in zip(texts, of_note, strict=True)
    ]


# Masked models: one token hidden at a time ---------------------------------------------------------------------------


def _pseudo(target: Target, role: str, report: Report) -> np.ndarray:
    """Row M2's normalised energy, turned to point up: mean over tokens of log p(token | all others), (notes,)."""

    def score() -> np.ndarray:
        lm, texts = target.model(role), judged_notes(target, PSEUDO_NOTES)["text"].tolist()
        found = in_chunks(texts, lambda part, seed: pseudo_log_likelihoods(lm, part), report, 0, chunk=8)
        return np.array([one.mean() for one in found])

    return target.once(("pseudo", role), score)


def _normalised(target: Target, report: Report) -> Tables:
    return scores_of("normalised energy", judged_notes(target, PSEUDO_NOTES), _pseudo(target, "target", report))


def _normalised_ratio(target: Target, report: Report) -> Tables:
    score = _pseudo(target, "target", report) - _pseudo(target, "base", report)
    return scores_of("normalised ratio base", judged_notes(target, PSEUDO_NOTES), score)


# White-box -----------------------------------------------------------------------------------------------------------


def _fitted(name: str, notes: pd.DataFrame, features: np.ndarray, seed: int) -> Tables:
    """Rows J5 and J6: fitted on one fifth of the patients, judged on the other four; each fifth is fitted on once.

    `scores` holds the first of the five, so that its intervals are those of one attack on patients it never saw.
    `split_scores` holds all five. (A mean of the five over each note would use every patient twice: its 95 % intervals
    hold the truth in 85 % of simulated cases, docs/methods/membership.md.)
    """
    judged = (notes["split"] != "population").to_numpy()
    member = (notes["split"] == "member").to_numpy()
    fold = np.full(len(notes), -1)
    fold[judged] = folds(notes.loc[judged, "patient_id"], member[judged], seed)
    frames = []
    for fit in range(FOLDS):
        chosen = fold == fit
        frame = scores_of(name, notes[~chosen], fitted_log_odds(features, member, chosen))["scores"]
        frames.append(frame.assign(fit=fit))
    return {"scores": frames[0].drop(columns="fit"), "split_scores": pd.concat(frames, ignore_index=True)}


def _attention(target: Target, report: Report) -> Tables:
    notes = judged_notes(target)
    features = attention_features(target.lm, notes["text"].tolist(), report)
    return _fitted(ATTENTION, notes, features, target.spec.audit.seed)


def _gradients(target: Target, report: Report) -> Tables:
    notes, seed = judged_notes(target, GRADIENT_NOTES), target.spec.audit.seed
    squares = gradient_features(target.lm, notes["text"].tolist(), seed=seed, report=report)
    return _fitted(GRADIENTS, notes, np.log(np.maximum(squares, SMALLEST)), seed)


# The list ------------------------------------------------------------------------------------------------------------


def _register(
    name: str,
    row: str,
    run: Callable[[Target, Report], Tables],
    sentence: str,
    *,
    access: Access = "grey-box",
    kinds: tuple[ModelKind, ...] = KINDS,
    cost: Cost = "cheap",
    tables: tuple[str, ...] = ("scores",),
    version: int = 1,
) -> None:
    register(Attack(name, row, access, kinds, cost, sentence, tables, run, version))


_register(LOSS, "J4", _loss, "A note that the model finds easy was probably in its lessons.")
_register(
    RATIO,
    "M1",
    partial(_ratio, "base"),
    "Some notes are easy for anybody; what counts is how much easier than for the public model.",
)
_register(
    "ratio population",
    "M1",
    partial(_ratio, POPULATION),
    "The same, against a model of the attacker's own, trained on notes of other patients.",
    cost="moderate",
)
_register("zlib", "", _zlib, "A file compressor says how predictable a text is by itself; the rest is memory.")
_register(
    "min-k 20 %",
    "",
    _min_k,
    "Only the most surprising fifth of the words: in a known note even those are tame.",
    kinds=("gpt2",),
)
_register(
    "min-k++ 20 %",
    "",
    _min_k_plus_plus,
    "As Min-K, with every word compared with what else the model thought possible there.",
    kinds=("gpt2",),
)
_register(
    "neighbourhood",
    "",
    _neighbourhood,
    "Change a few words: a memorised note gets much worse, any other note hardly.",
    cost="moderate",
    version=2,
)
_register(
    "rmia",
    "",
    _rmia,
    "How many strangers' notes look less like members than this one, beside several models of the attacker's own.",
    cost="dear",
)
_register(
    "normalised energy",
    "M2",
    _normalised,
    "Hide one word at a time and see how well the model puts it back.",
    kinds=MASKED,
    cost="moderate",
)
_register(
    "normalised ratio base",
    "M1, M2",
    _normalised_ratio,
    "Hide one word at a time, and compare with the public model at the same task.",
    kinds=MASKED,
    cost="moderate",
)
_register(
    ATTENTION,
    "J5",
    _attention,
    "Learns from some patients how narrowly the model looks at a text that it knows.",
    access="white-box",
    cost="cheap",
    tables=("scores", "split_scores"),
)
_register(
    GRADIENTS,
    "J6",
    _gradients,
    "Learns from some patients how little a text would still change the model's weights if it was there already.",
    access="white-box",
    cost="moderate",
    tables=("scores", "split_scores"),
)
