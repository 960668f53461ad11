"""The trainings from which the recipe was chosen: `python -m core bench recipes --write bench/recipe/recipes.jsonl`.

Every setting of `GRID` is trained on the notes of a *tuning hospital*: synthetic, and of another seed than any hospital
whose figures are reported. Nothing is therefore chosen on notes that a reported ε protects, and choosing costs no ε.
With `--write`, each result is appended to the file when it is there, and settings that the file has are skipped.
docs/methods/recipe.md says what was chosen.
"""

from __future__ import annotations

import hashlib
import json as json_format
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.common.versions import ACCELERATOR
from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.models.build import LanguageModel, accelerator, load
from core.models.likelihood import log_likelihoods, note_losses
from core.models.shipped_bases import shipped_folder
from core.spec import CORPUS_PRESETS, CorpusSpec, ModelKind, ModelSpec, PrivacySpec, TrainingSpec
from core.training.trainer import train

TUNING_SEED = 1_001
SCORED_NOTES = 600
SMALL, MIDDLE, LARGE = 430, 1_740, 6_960  # patients: about 3,000, 12,000 and 48,000 training notes


@dataclass(frozen=True)
class Setting:
    """One training: ε None is training without privacy; epochs 0 the public base model."""

    kind: ModelKind
    patients: int
    epsilon: float | None
    batch: int
    epochs: int
    rate: float
    mask_share: float | None = None
    masks: int | None = None

    def training(self) -> TrainingSpec:
        """The settings in full; without warm-up if private, as the recipe."""
        return TrainingSpec(
            epochs=self.epochs,
            batch_size=self.batch,
            learning_rate=self.rate,
            warmup=0.05 if self.epsilon is None else 0.0,
            mask_share=self.mask_share,
            masks=self.masks,
        )


GRID = (
    Setting("gpt2", SMALL, None, 16, 0, 1e-3),
    Setting("distilbert", SMALL, None, 16, 0, 1e-3),
    Setting("gpt2", SMALL, 1.0, 256, 6, 2.2e-3),
    Setting("gpt2", SMALL, 1.0, 256, 6, 1.1e-3),
    Setting("gpt2", SMALL, 1.0, 256, 12, 2.2e-3),
    Setting("gpt2", SMALL, 8.0, 256, 12, 4e-3),
    Setting("gpt2", SMALL, 8.0, 256, 12, 2.5e-3),
    Setting("gpt2", SMALL, 8.0, 256, 12, 1.6e-3),
    Setting("gpt2", SMALL, 1.0, 256, 12, 1.1e-3),
    Setting("gpt2", SMALL, 1.0, 256, 12, 0.7e-3),
    Setting("gpt2", SMALL, 1_000.0, 32, 12, 2e-3),
    Setting("distilbert", SMALL, 8.0, 256, 12, 3e-3, 0.4, 2),
    Setting("distilbert", SMALL, 8.0, 256, 12, 1.5e-3, 0.4, 2),
    Setting("distilbert", SMALL, 8.0, 256, 12, 3e-3, 0.4),
    Setting("distilbert", SMALL, 8.0, 256, 12, 3e-3),
    Setting("gpt2", MIDDLE, None, 16, 0, 1e-3),
    Setting("gpt2", MIDDLE, 8.0, 512, 6, 4e-3),
    Setting("gpt2", MIDDLE, 8.0, 256, 6, 4e-3),
    Setting("gpt2", MIDDLE, 8.0, 1_024, 6, 6e-3),
    Setting("gpt2", MIDDLE, 8.0, 1_024, 12, 4e-3),
    Setting("gpt2", MIDDLE, 8.0, 1_024, 12, 2.5e-3),
    Setting("gpt2", MIDDLE, 1.0, 512, 6, 1.5e-3),
    Setting("gpt2", MIDDLE, 1.0, 512, 6, 2.5e-3),
    Setting("gpt2", MIDDLE, 8.0, 256, 2, 4e-3),
    Setting("gpt2", MIDDLE, 8.0, 256, 2, 2.5e-3),
    Setting("gpt2", LARGE, 8.0, 1_024, 6, 4e-3),
    Setting("gpt2", LARGE, 1.0, 2_048, 6, 3.9e-3),
    Setting("gpt2", LARGE, 1.0, 2_048, 12, 3.6e-3),
    Setting("distilbert", MIDDLE, 8.0, 512, 6, 2.6e-3, 0.4, 2),
    Setting("distilbert", MIDDLE, 8.0, 1_024, 12, 3e-3, 0.4, 2),
    Setting("distilbert", MIDDLE, 1.0, 512, 6, 1.4e-3, 0.4, 2),
    Setting("distilbert", MIDDLE, 1.0, 1_024, 12, 1.7e-3, 0.4, 2),
    Setting("distilbert", LARGE, 8.0, 1_024, 3, 3e-3, 0.4),
    Setting("distilbert", LARGE, 8.0, 2_048, 6, 3e-3, 0.4),
    Setting("distilbert", LARGE, 1.0, 1_024, 3, 2.4e-3, 0.4),
    Setting("distilbert", LARGE, 1.0, 2_048, 6, 2.9e-3, 0.4),
)


def main(json: bool = False, write: str | None = None) -> None:
    """Train what is missing and print every result, one JSON object a line (`json` changes nothing)."""
    file = None if write is None else Path(write)
    known = {} if file is None or not file.exists() else dict(_stored(file))
    for setting in GRID:
        key = _key(setting)
        if key not in known:
            known[key] = measured(setting)
            if file is not None:
                with file.open("a", encoding="utf-8") as lines:
                    lines.write(json_format.dumps(known[key]) + "\n")
        print(json_format.dumps(known[key]), flush=True)


def measured(setting: Setting, cohort: CorpusSpec = CORPUS_PRESETS["classroom"], size: str = "tiny") -> dict[str, Any]:
    """Train one setting on the tuning hospital.

    Returns:
        The setting with its key, the number of training notes, steps, σ (None without noise), the figures of `scored`,
        the seconds of training, the number of threads, and the name of the GPU, if there is one.
    """
    key = _key(setting)  # before the weights are read: the shipped ones may be replaced while a training runs
    corpus = build(cohort.model_copy(update={"seed": TUNING_SEED, "patients": setting.patients}))
    notes = corpus.training_notes(None)
    lm = load(ModelSpec(kind=setting.kind, size=size))
    started = time.perf_counter()
    privacy = PrivacySpec(target_epsilon=setting.epsilon)
    result = train(lm, notes, setting.training(), privacy)
    seconds = time.perf_counter() - started
    sigma = None if result.mechanism is None else result.mechanism.noise_multiplier
    found = {"key": key, **asdict(setting), "notes": len(notes), "steps": len(result.history), "sigma": sigma}
    gpu = {} if (name := accelerator(lm.device)) is None else {ACCELERATOR: name}
    return found | scored(lm, corpus) | {"seconds": round(seconds, 1), "threads": torch.get_num_threads()} | gpu


def scored(lm: LanguageModel, corpus: Corpus) -> dict[str, float | None]:
    """Figures of a fixed sample of the notes of held-out patients and of members.

    Returns:
        Perplexity of the held-out notes; bits a character, log2(perplexity) · tokens / characters (None for masked
        models, whose pseudo-perplexity is of hidden tokens only); and the AUC of the loss attack, the probability that
        a member's note has a lower loss than a held-out one (.5: nothing leaks).
    """
    samples = {}
    for split in ("heldout", "member"):
        notes = corpus.notes_of(split)["text"]
        samples[split] = notes.sample(min(SCORED_NOTES, len(notes)), random_state=0).tolist()
    texts = samples["heldout"]
    scored = log_likelihoods(lm, texts)
    tokens = sum(map(len, scored))
    nats = -float(sum(one.sum() for one in scored)) / tokens
    bits = nats / math.log(2) * tokens / sum(map(len, texts)) if lm.causal else None
    outside = np.array([-one.mean() for one in scored if len(one)])
    inside = note_losses(lm, samples["member"])
    auc = float((inside[:, None] < outside[None, :]).mean())
    return {"perplexity": math.exp(nats), "bits_per_character": bits, "auc": auc}


def _key(setting: Setting) -> str:
    """The setting and the public model's weights: another base model is another measurement."""
    weights = shipped_folder(ModelSpec(kind=setting.kind)) / "model.safetensors"
    return f"{json_format.dumps(asdict(setting))} {_digest(weights)}"


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:8]


def _stored(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json_format.loads(line)
        yield row["key"], row
