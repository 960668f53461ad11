"""The training settings to start from, by the kind of model, the promise and the number of training notes.

They were chosen on a hospital of another seed than any whose figures are reported (docs/methods/recipe.md).
"""

from __future__ import annotations

import math

from core.spec.parts import ModelKind, ModelSize, PrivacySpec, TrainingSpec

CONTROL_OF = PrivacySpec(target_epsilon=8.0)  # the private run whose control training without noise is by default

USUAL_MASKS = {"mask_share": 0.15, "masks": 1}  # what None stands for in these settings of a masked model

STEPS = 140  # of a private training up to ε = 8
NOTES, BATCH = 3_000, 256  # the batch grows with √notes from here
LONGER = {"notes": 6_000, "sigma": 2.2}  # from and up to these, twice the batch and twice the epochs pay off
ONCE_MORE = 2.6  # σ up to which twice the epochs pay off once more
MOST_EPOCHS = 12  # not beyond these, and never for masked models: the time
WEAKER = {"epsilon": (15.0, 60.0, 300.0), "sigma": (0.55, 0.4, 0.2)}  # beyond each of these the batch is halved
MASKS, FEWER_MASKS = 4, 2  # of a note in a step of a masked model
MANY = 24_000  # notes, from which on it reads each under fewer masks, because of the time
PLAIN_NOTES = 12_500  # beyond, plain training takes fewer epochs
SHORT_READS = 24_000  # notes that a short training reads: two to three minutes on two idle cores
SHORT_STEPS = 100  # of a short private training

_RATE: dict[ModelKind, float] = {"gpt2": 4e-3, "distilbert": 3e-3, "bert": 3e-3}
# Of the recipe's rate. 2e-3 destroys a BERT of 5 layers × 256 within 250 steps, half of it does not (models.md).
_LARGER: dict[tuple[ModelKind, ModelSize], float] = {("bert", "small"): 0.5}
_RATE_UP_TO = 1e-3  # σ / batch up to which the highest rate is best

_CLASSROOM_RATE: dict[ModelKind, float] = {"gpt2": 5e-3, "distilbert": 2e-3, "bert": 2e-3}  # at ε = 8, σ = 0.75


def recipe(
    kind: ModelKind,
    privacy: PrivacySpec | None = None,
    *,
    notes: int | None = None,
    epochs: int | None = None,
    seed: int = 0,
    clipped: bool = False,
    short: bool = False,
    size: ModelSize = "tiny",
) -> TrainingSpec:
    """Training settings chosen by measurement.

    Args:
        kind: of the model.
        privacy: the promise; None or without ε and σ: none.
        notes: number of training notes. None gives the earlier recipe, of short trainings on about 3,000 notes.
        epochs: instead of the recipe's.
        seed: of the training.
        clipped: without privacy, the settings of the private run at ε = 8, whose control training without noise is;
            the norm `clip_norm` is the caller's.
        short: about SHORT_READS notes read in all, if the recipe reads more: for a class that waits. Only with `notes`.
        size: of the model. The settings were chosen for `tiny`; BERT's `small` needs a lower rate.

    Raises:
        ValueError: if `notes` is not positive.
    """
    if notes is not None and notes < 1:
        raise ValueError(f"a recipe needs at least one training note, not {notes}")
    private = privacy if privacy is not None and privacy.private else CONTROL_OF if clipped else None
    if notes is None:
        chosen = _classroom(kind, private)
    elif private is None:
        chosen = _plain(kind, notes, short)
    else:
        chosen = _private(kind, private, notes, short)
    asked = {"seed": seed} if epochs is None else {"seed": seed, "epochs": epochs}
    rate = float(f"{chosen.learning_rate * _LARGER.get((kind, size), 1.0):.2g}")
    return TrainingSpec(**{**chosen.model_dump(), "learning_rate": rate, **asked})


def _private(kind: ModelKind, privacy: PrivacySpec, notes: int, short: bool) -> TrainingSpec:
    """Large batches and about 140 steps; with weaker noise smaller batches, so more steps in the same time.

    The signal of all steps over their noise grows with √steps · batch / σ. Where σ is large, hardly any choice of batch
    and steps changes that number, so they are chosen by time. Where there are many notes for the ε, larger batches in
    more epochs do. With weak noise there is signal enough for smaller batches.
    """
    masks = None if kind == "gpt2" else _masks(privacy, notes)
    usual, epochs = _longer(privacy, notes, *_usual(notes), most=MOST_EPOCHS if kind == "gpt2" else 0)
    if short:
        fewer_masks = None if kind == "gpt2" or notes >= MANY else FEWER_MASKS
        fewer = _short_epochs(notes * (fewer_masks or 1))
        if fewer * (fewer_masks or 1) < epochs * (masks or 1):
            masks = fewer_masks
        if fewer < epochs:
            epochs, usual = fewer, min(usual, max(BATCH, _power_of_two(fewer * notes / SHORT_STEPS)))
    batch = max(1, usual // 2 ** _weaker(privacy))
    rate = rate_for(kind, _noise(privacy, notes, usual, epochs)) * max(0.5, math.sqrt(batch / usual))
    return TrainingSpec(
        epochs=epochs,
        batch_size=batch,
        learning_rate=float(f"{rate:.2g}"),
        warmup=0.0,
        mask_share=None if kind == "gpt2" else 0.4,
        masks=masks,
    )


def rate_for(kind: ModelKind, noise: float) -> float:
    """The learning rate of private training: lower where `noise` = σ / batch, that of a step's mean gradient, is large.

    Adam's steps are as long on noise as on signal, so a high rate would destroy more of what the public model knows
    than it learns.
    """
    return _RATE[kind] * min(1.0, math.sqrt(_RATE_UP_TO / noise))


def _usual(notes: int) -> tuple[int, int]:
    """Batch and epochs for about STEPS steps."""
    batch = max(1, min(_power_of_two(BATCH * math.sqrt(notes / NOTES)), _power_of_two(notes / 4)))
    return batch, max(1, round(STEPS * batch / notes))


def _noise(privacy: PrivacySpec, notes: int, batch: int, epochs: int) -> float:
    """σ / batch; for a target ε about what the accountant gives (recipe.md has the comparison)."""
    if privacy.noise_multiplier is not None:
        return privacy.noise_multiplier / batch
    usual_batch, usual_epochs = _usual(notes)
    usual = 3.7e-3 * (8 / (privacy.target_epsilon or 8)) ** 0.6 * (NOTES / notes) ** 0.75
    return usual * (usual_batch / batch) ** 0.8 * (epochs / usual_epochs) ** 0.2


def _masks(privacy: PrivacySpec, notes: int) -> int:
    """How many masks a masked model reads a note under in a step. More of them cost time, and no privacy.

    The mean gradient of a note over its masks is clipped. It varies less than that of one mask, so more of what is left
    after clipping is signal. Fewer for many notes, because of the time, and with weak noise, where there is signal
    enough.
    """
    return MASKS if notes < MANY and not _weaker(privacy) else FEWER_MASKS


def _longer(privacy: PrivacySpec, notes: int, batch: int, epochs: int, *, most: int) -> tuple[int, int]:
    """Batch and epochs where longer training raises the signal over the noise: hardly where σ is large already.

    Batch and epochs are doubled, and then the epochs alone once more if they are at most `most` afterwards. A given σ
    is taken as that of the longer training.
    """
    if notes >= LONGER["notes"] and _sigma(privacy, notes, 2 * batch, 2 * epochs) <= LONGER["sigma"]:
        batch, epochs = 2 * batch, round(STEPS * 2 * batch / notes)
        if 2 * epochs <= most and _sigma(privacy, notes, batch, 2 * epochs) <= ONCE_MORE:
            epochs *= 2
    return batch, epochs


def _sigma(privacy: PrivacySpec, notes: int, batch: int, epochs: int) -> float:
    """σ; for a target ε about what the accountant gives."""
    return _noise(privacy, notes, batch, epochs) * batch


def _weaker(privacy: PrivacySpec) -> int:
    """How often the batch is halved because the noise is weak: 0 up to ε = 15, and 3 times at most."""
    if privacy.target_epsilon is not None:
        return sum(privacy.target_epsilon > limit for limit in WEAKER["epsilon"])
    return sum((privacy.noise_multiplier or 1.0) < limit for limit in WEAKER["sigma"])


def _plain(kind: ModelKind, notes: int, short: bool) -> TrainingSpec:
    """Shuffled batches of 16; of very many notes fewer epochs, because of the time.

    A masked model predicts only 15 % of the tokens in an epoch, so it takes longer to learn a note.
    """
    most = 8 if kind == "gpt2" else 16
    epochs = max(3, round(most * math.sqrt(min(1.0, PLAIN_NOTES / notes))))
    if short:
        epochs = min(epochs, _short_epochs(notes))
    return TrainingSpec(epochs=epochs, batch_size=16, learning_rate=2e-3)


def _short_epochs(notes: int) -> int:
    return max(1, round(SHORT_READS / notes))


def _power_of_two(value: float) -> int:
    return int(2 ** round(math.log2(max(1.0, value))))


def _classroom(kind: ModelKind, privacy: PrivacySpec | None) -> TrainingSpec:
    """The recipe of the first `classroom` runs: 46 steps, and plain training of a minute."""
    if privacy is not None:
        return TrainingSpec(epochs=4, batch_size=256, learning_rate=_classroom_rate(kind, privacy), warmup=0.0)
    return TrainingSpec(epochs=8 if kind == "gpt2" else 16, batch_size=16, learning_rate=2e-3)


def _classroom_rate(kind: ModelKind, privacy: PrivacySpec) -> float:
    """Falls with √ε below ε = 8, and with 1/σ above σ = 0.75, which is about the same; to two digits."""
    if privacy.target_epsilon is not None:
        share = math.sqrt(privacy.target_epsilon / 8)
    else:
        share = 0.75 / (privacy.noise_multiplier or 1.0)
    return float(f"{_CLASSROOM_RATE[kind] * min(1.0, share):.2g}")
