"""The registered membership attacks. Each writes rows of the `scores` table.

All scores have the same direction: higher = more likely a member. Formulas and sources: docs/methods/membership.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from core.attacks.evaluation_set import (
    MASK_DRAWS,
    evaluation_notes,
    in_chunks,
    mean_log_likelihoods,
    moments,
    token_log_probabilities,
)
from core.attacks.membership.decision import ATTENTION, GRADIENTS, LIRA, LOSS, RATIO
from core.attacks.membership.neighbours import neighbours
from core.attacks.membership.reference import POPULATION, SHADOWS
from core.attacks.membership.scores import SCORE_COLUMNS, min_k, min_k_plus_plus
from core.attacks.membership.shadow_models import CAUGHT_COLUMNS, LEAST, USUAL, caught_patients, likelihood_ratios
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
from core.spec import CLINICAL, ModelKind, ModelSpec

register_table("scores", SCORE_COLUMNS)
register_table("split_scores", {**SCORE_COLUMNS, "fit": "int32"})
register_table("shadow_patients", CAUGHT_COLUMNS)

K_SHARE = 0.20  # Min-K %: the least likely 20 % of tokens
NEIGHBOURS = 8
NEIGHBOUR_NOTES = 400  # expensive attacks evaluate whole patients with about this many notes
PSEUDO_NOTES = 200
GRADIENT_NOTES = 2_500
_STREAM = 14


def scores_of(attack: str, notes: pd.DataFrame, score: np.ndarray) -> dict[str, pd.DataFrame]:
    """The `scores` table of one attack, one row per note. Raises ValueError if a score is not a finite number."""
    if not np.isfinite(score).all():
        bad = int((~np.isfinite(score)).sum())
        raise ValueError(f"the attack “{attack}” gave {bad} of {len(score)} notes no finite score")
    keys = ["note_id", "admission_id", "patient_id", "split", "note_type", "tokens"]
    frame = notes[keys].assign(attack=attack, member=notes["split"] == "member", score=score)
    return {"scores": frame[list(SCORE_COLUMNS)].astype(SCORE_COLUMNS).reset_index(drop=True)}


# Loss and ratios -----------------------------------------------------------------------------------------------------


def _loss(target: Target, report: Report) -> Tables:
    return scores_of(LOSS, evaluation_notes(target), mean_log_likelihoods(target, "target", report))


def _ratio(role: str, target: Target, report: Report) -> Tables:
    """Mean log p under the target − mean log p under the reference (Mireshghallah 2022, eq. 1, sign reversed)."""
    own = mean_log_likelihoods(target, "target", report)
    return scores_of(f"ratio {role}", evaluation_notes(target), own - mean_log_likelihoods(target, role, report))


def relative_membership(own: np.ndarray, references: np.ndarray, of_population: np.ndarray) -> np.ndarray:
    """Offline RMIA (Zarifzadeh et al. 2024, eq. 4 with γ = 1), (n,): the share of strangers who look less like members.

    LR(x) = p(x | target) / mean_k p(x | reference k). The score is the share of population notes z with LR(x) > LR(z);
    a tie counts ½. A population note is compared with the other population notes only.

    Args:
        own: mean log-likelihood in nats per token under the target, (n,).
        references: the same under each reference model, (k, n).
        of_population: which of the n notes are the z, bool (n,).
    """
    ratios = own - (np.logaddexp.reduce(references, axis=0) - np.log(len(references)))
    strangers = np.sort(ratios[of_population])
    if len(strangers) < 2:
        raise NotPossible("RMIA compares notes with those of a population, and this cohort's has fewer than two notes")
    below = np.searchsorted(strangers, ratios, side="left")
    tied = np.searchsorted(strangers, ratios, side="right") - below - of_population
    return (below + tied / 2) / (len(strangers) - of_population)


def _rmia(target: Target, report: Report) -> Tables:
    notes = evaluation_notes(target)
    own = mean_log_likelihoods(target, "target", report)
    references = np.stack([mean_log_likelihoods(target, role, report) for role in (POPULATION, *SHADOWS)])
    population = (notes["split"] == "population").to_numpy()
    return scores_of("rmia", notes, relative_membership(own, references, population))


def _lira(target: Target, report: Report) -> Tables:
    """Online LiRA on members and held-out patients, and how often each of them is caught over all shadow models."""
    if target.shadows is None:
        raise NotPossible(
            f"LiRA compares with at least {LEAST} shadow models of the same recipe, and there are none. "
            f"`python -m core shadows RUN` trains {USUAL} and then attacks."
        )
    every = target.shadows(target)
    judged = np.asarray(every.inside.any(axis=0))  # no model reads the population, or a patient's notes beyond the cap
    notes, shadows = evaluation_notes(target)[judged], every.of(judged)
    own = mean_log_likelihoods(target, "target", report)[judged]
    scores = scores_of(LIRA, notes, likelihood_ratios(own, shadows))
    return {**scores, "shadow_patients": caught_patients(notes["patient_id"].tolist(), shadows)}


# Relative to the difficulty of the text itself -----------------------------------------------------------------------


def zlib_score(mean_log_probability: float, tokens: int, text: str) -> float:
    """Log p per zlib byte: tokens · mean log p / zlib bytes, in nats. Higher = more likely a member.

    Carlini et al. 2021, §5.2, adapted to texts of any length: total nats over the compressed length,
    not nats per token.
    """
    return tokens * mean_log_probability / len(zlib.compress(text.encode()))


def _zlib(target: Target, report: Report) -> Tables:
    notes, means = evaluation_notes(target), mean_log_likelihoods(target, "target", report)
    rows = zip(means, notes["tokens"], notes["text"], strict=True)
    return scores_of("zlib", notes, np.array([zlib_score(*row) for row in rows]))


def _min_k(target: Target, report: Report) -> Tables:
    found = token_log_probabilities(target, "target", report)
    return scores_of("min-k 20 %", evaluation_notes(target), np.array([min_k(one, K_SHARE) for one in found]))


def _min_k_plus_plus(target: Target, report: Report) -> Tables:
    found = [min_k_plus_plus(one[0], one[1], one[2], K_SHARE) for one in moments(target, report)]
    return scores_of("min-k++ 20 %", evaluation_notes(target), np.array(found))


def _neighbourhood(target: Target, report: Report) -> Tables:
    """Mean loss of the neighbours − loss of the note (Mattern et al. 2023, eq. 3, sign reversed).

    A masked model scores a note and its neighbours under the same draws, one for each place of a token. Different draws
    would change the loss more than a replaced word does. They hide the same tokens up to the first word that is
    replaced by one with another number of pieces, and other ones after it: four of five neighbours have such a word.
    """
    notes = evaluation_notes(target, NEIGHBOUR_NOTES)
    public = target.spec.model
    base = public.base if public.shipped else CLINICAL
    proposer = load(ModelSpec(kind="distilbert", size=public.size, base=base))
    shared = target.lm.causal  # a causal model's own loss is already known; a masked model's depends on the masks drawn
    texts: list[str] = []
    of_note: list[int] = []
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
    return scores_of("neighbourhood", notes, np.where(np.isnan(mean), 0.0, mean - own))  # no neighbours: score 0


def _masked(target: Target, texts: Sequence[str], of_note: Sequence[int]) -> list[float]:
    """A masked model's loss of each text under the masks of its note, the same as for a text scored alone."""
    return [
        float(note_losses(target.lm, [text], mask_draws=MASK_DRAWS, seed=target.spec.audit.seed + number)[0])
        for text, number in zip(texts, of_note, strict=True)
    ]


# Masked models: one token hidden at a time ---------------------------------------------------------------------------


def _pseudo(target: Target, role: str, report: Report) -> np.ndarray:
    """Mean over tokens of log p(token | all others), (notes,): minus Mireshghallah 2022's normalised energy, A.3.2."""

    def score() -> np.ndarray:
        lm, texts = target.model(role), evaluation_notes(target, PSEUDO_NOTES)["text"].tolist()
        found = in_chunks(texts, lambda part, seed: pseudo_log_likelihoods(lm, part), report, 0, chunk=8)
        return np.array([one.mean() for one in found])

    return target.once(("pseudo", role), score)


def _normalised(target: Target, report: Report) -> Tables:
    return scores_of("normalised energy", evaluation_notes(target, PSEUDO_NOTES), _pseudo(target, "target", report))


def _normalised_ratio(target: Target, report: Report) -> Tables:
    score = _pseudo(target, "target", report) - _pseudo(target, "base", report)
    return scores_of("normalised ratio base", evaluation_notes(target, PSEUDO_NOTES), score)


# White-box -----------------------------------------------------------------------------------------------------------


def fitted_scores(name: str, notes: pd.DataFrame, features: np.ndarray, seed: int) -> Tables:
    """Fit on one fifth of the patients and score the other four, for each fifth in turn (Jagannatha 2021, §5.1).

    `scores` holds the first of the five fits, so that its intervals are those of one attack on patients it never saw.
    `split_scores` holds all five. (Averaging the five for each note would use every patient twice: its 95 % intervals
    cover the truth in 85 % of simulated cases, docs/methods/membership.md.)
    """
    evaluated = (notes["split"] != "population").to_numpy()
    member = (notes["split"] == "member").to_numpy()
    fold = np.full(len(notes), -1)
    fold[evaluated] = folds(notes.loc[evaluated, "patient_id"], member[evaluated], seed)
    frames = []
    for fit in range(FOLDS):
        chosen = fold == fit
        frame = scores_of(name, notes[~chosen], fitted_log_odds(features, member, chosen))["scores"]
        frames.append(frame.assign(fit=fit))
    return {"scores": frames[0].drop(columns="fit"), "split_scores": pd.concat(frames, ignore_index=True)}


def _attention(target: Target, report: Report) -> Tables:
    notes = evaluation_notes(target)
    features = attention_features(target.lm, notes["text"].tolist(), report)
    return fitted_scores(ATTENTION, notes, features, target.spec.audit.seed)


def _gradients(target: Target, report: Report) -> Tables:
    notes, seed = evaluation_notes(target, GRADIENT_NOTES), target.spec.audit.seed
    texts = notes["text"].tolist()
    squares = gradient_features(target.lm, texts, mask_draws=MASK_DRAWS, seed=seed, report=report)
    return fitted_scores(GRADIENTS, notes, np.log(np.maximum(squares, SMALLEST)), seed)


# The list ------------------------------------------------------------------------------------------------------------


def _register(
    name: str,
    source: str,
    run: Callable[[Target, Report], Tables],
    sentence: str,
    *,
    access: Access = "grey-box",
    kinds: tuple[ModelKind, ...] = KINDS,
    cost: Cost = "cheap",
    tables: tuple[str, ...] = ("scores",),
    version: int = 1,
    version_masked: int = 0,
) -> None:
    register(Attack(name, source, access, kinds, cost, sentence, tables, run, version, version_masked=version_masked))


_register(LOSS, "Jagannatha 2021, §4.1.1", _loss, "A note with a low loss was probably in the training data.")
_register(
    RATIO,
    "Mireshghallah 2022, §2.2",
    partial(_ratio, "base"),
    "Some notes are easy for any model, so compare the loss with that of the public model.",
)
_register(
    "ratio population",
    "Mireshghallah 2022, §2.2",
    partial(_ratio, POPULATION),
    "The same, compared with a model that the attacker trained on other patients' notes.",
    cost="moderate",
)
_register(
    "zlib",
    "Carlini 2021, §5.2",
    _zlib,
    "A file compressor shows how predictable a text is by itself; a loss far below that suggests memorisation.",
)
_register(
    "min-k 20 %",
    "Shi 2024",
    _min_k,
    "Uses only the fifth of the tokens that surprise the model most: in a training note even those surprise it less.",
    kinds=("gpt2",),
)
_register(
    "min-k++ 20 %",
    "Zhang 2025",
    _min_k_plus_plus,
    "As Min-K, with every token compared with the model's other predictions at that position.",
    kinds=("gpt2",),
)
_register(
    "neighbourhood",
    "Mattern 2023, eq. 3",
    _neighbourhood,
    "Replaces a few words: the loss rises a lot for a memorised note and hardly for any other.",
    cost="moderate",
    version=2,
)
_register(
    "rmia",
    "Zarifzadeh 2024, eq. 4",
    _rmia,
    "Counts how many strangers' notes look less like members than this one, compared with several reference models.",
    cost="expensive",
)
_register(
    LIRA,
    "Carlini 2022, algorithm 1",
    _lira,
    "Compares the note's loss with its losses under models that read it, and under models that did not.",
    cost="expensive",
    tables=("scores", "shadow_patients"),
)
_register(
    "normalised energy",
    "Mireshghallah 2022, A.3.2",
    _normalised,
    "Hides one token at a time and measures how well the model predicts it.",
    kinds=MASKED,
    cost="moderate",
)
_register(
    "normalised ratio base",
    "Mireshghallah 2022, §2.2, A.3.2",
    _normalised_ratio,
    "Hides one token at a time and compares the model's predictions with the public model's.",
    kinds=MASKED,
    cost="moderate",
)
_register(
    ATTENTION,
    "Jagannatha 2021, §4.1.2",
    _attention,
    "Learns from some patients how concentrated the model's attention is on texts it was trained on.",
    access="white-box",
    cost="cheap",
    tables=("scores", "split_scores"),
)
_register(
    GRADIENTS,
    "Jagannatha 2021, §4.1.2",
    _gradients,
    "Learns from some patients how small a text's gradient is if the model was already trained on it.",
    access="white-box",
    cost="moderate",
    tables=("scores", "split_scores"),
    version_masked=2,
)
