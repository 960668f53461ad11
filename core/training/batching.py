"""Padded batches from sample numbers: what a training step reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from core.common.randomness import PublicSeed, Randomness
from core.models.build import LanguageModel
from core.models.encoding import Samples, encode_samples, smallest_dtype
from core.models.masking import MASK_SHARE
from core.spec import PrivacySpec, TrainingSpec
from core.training.losses import Batch, causal_batch, masked_batch
from core.training.sampling import Purpose, Units, physical_batches, pieces, poisson_batches, shuffled_batches

UnitPiece = tuple[Batch, np.ndarray]  # a batch and the unit of each of its examples (B,)


def training_samples(lm: LanguageModel, texts: Sequence[str], max_tokens: int) -> Samples:
    """The samples of at most `max_tokens` tokens that a training reads, with ids of the smallest type.

    A setting above the model's context is cut to it.
    """
    return encode_samples(lm, texts, min(max_tokens, lm.context), dtype=smallest_dtype(lm))


class Feed:
    """The batches of a run. A step's content follows from `randomness` and its number, not from earlier steps.

    With `training.masks` = K, every sample is read K times in a step, each time with its own mask: copy k of sample i
    of S is *example* i + k·S. With one mask (K = 1) examples are samples.
    """

    def __init__(self, lm: LanguageModel, samples: Samples, training: TrainingSpec, randomness: Randomness):
        self._lm, self._samples, self._training, self._randomness = lm, samples, training, randomness
        self.masks = training.masks or 1
        self._share = training.mask_share or MASK_SHARE
        self._lengths = np.tile(np.array([len(ids) for ids in samples.ids]), self.masks)  # of the examples
        self.note_index = np.tile(samples.note_index, self.masks)  # each example's note
        self._epoch: tuple[int, list[np.ndarray]] = (0, [])

    def sampled(self, step: int, units: Units, sample_rate: float) -> tuple[int, Iterator[Iterator[UnitPiece]]]:
        """The size of one Poisson sample and its physical batches, each in pieces; none if no unit was sampled."""
        physical = self.drawn(step, units, sample_rate)
        keys = self._mask_keys([rows for rows, _ in physical], step)
        batches = (
            ((self._padded(piece, keys), of) for piece, of in pieces(rows, names, self._lengths))
            for rows, names in physical
        )
        return sum(len(rows) for rows, _ in physical), batches

    def drawn(self, step: int, units: Units, sample_rate: float) -> list[tuple[np.ndarray, np.ndarray]]:
        """The same Poisson sample as (example numbers, unit numbers) of each physical batch, both (B,)."""
        rng = self._randomness.stream(Purpose.SAMPLE, step)
        return poisson_batches(units, self._lengths, sample_rate, self._training.physical_batch, rng)

    def shuffled(self, step: int, steps_an_epoch: int) -> tuple[int, Iterator[Batch]]:
        """The size and the physical batches of one step of the shuffled epochs."""
        epoch, index = divmod(step - 1, steps_an_epoch)
        if self._epoch[0] != epoch + 1:
            rng = PublicSeed(self._training.seed).stream(Purpose.SHUFFLE, epoch + 1)
            lengths = self._lengths[: len(self._samples)]
            self._epoch = (epoch + 1, shuffled_batches(lengths, self._training.batch_size, rng))
        copies = np.arange(self.masks) * len(self._samples)
        rows = (self._epoch[1][index][:, None] + copies).ravel()  # a sample's copies side by side: no padding between
        keys = self._mask_keys([rows], step)
        return len(rows), (self._padded(part, keys) for part in physical_batches(rows, self._training.physical_batch))

    def _mask_keys(self, batches: list[np.ndarray], step: int) -> dict[int, np.ndarray]:
        """Random numbers (2, length) for each example of a logical batch, independent of its physical batches."""
        if self._lm.causal or not batches:
            return {}
        rows = np.sort(np.concatenate(batches))
        lengths = self._lengths[rows]
        drawn = self._randomness.stream(Purpose.MASK, step).random((2, int(lengths.sum())))
        return dict(zip(rows.tolist(), np.split(drawn, np.cumsum(lengths)[:-1], axis=1), strict=True))

    def _padded(self, rows: np.ndarray, keys: dict[int, np.ndarray]) -> Batch:
        """Examples as padded tensors on the model's device."""
        ids = [self._samples.ids[row % len(self._samples)] for row in rows]
        if self._lm.causal:
            return causal_batch(ids, self._lm.device)
        chosen = [keys[int(row)] for row in rows]
        return masked_batch(ids, chosen, self._lm.tokenizer, self._lm.device, self._share)

    def fingerprint(self, privacy: PrivacySpec) -> str:
        """Digest of everything that determines the steps, so that a checkpoint of another run is not resumed."""
        digest = hashlib.sha256(
            f"{self._lm.kind}|{self._training.model_dump_json()}|{privacy.model_dump_json()}".encode()
        )
        digest.update(self._randomness.check)
        digest.update(self._lengths.tobytes())
        for ids in self._samples.ids:
            digest.update(ids.astype(np.int64).tobytes())
        return digest.hexdigest()
