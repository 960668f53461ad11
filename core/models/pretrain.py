"""Pretrain a base model on public text and write it with its model card."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from core.corpus.public_text import heldout_text, training_text
from core.models import build
from core.models.build import LanguageModel
from core.models.card import SourceFigures, write_card
from core.models.encoding import encode
from core.models.likelihood import perplexity
from core.models.masking import MASK_SHARE, draw_mask, masked_logits
from core.models.public_sources import TextFile, public_words, read_documents, split_documents
from core.models.shared_wording import shared_with_hospital
from core.models.tokenizer import train
from core.spec import ModelKind, ModelSize

BATCH_BLOCKS: dict[ModelKind, int] = {"gpt2": 32, "distilbert": 8, "bert": 8}
PEAK_RATE: dict[ModelKind, float] = {"gpt2": 2e-3, "distilbert": 1e-3, "bert": 1e-3}
WARMUP_SHARE = 0.03
WEIGHT_DECAY = 0.05
MASK_SHARES = (0.25, MASK_SHARE)  # at the first and last step: more targets first, the share of scoring last
HELDOUT_DOCUMENTS = 400  # of each file, for the perplexity on its card
CHAIN = 0.5  # probability that a block continues where the last one ended; otherwise it begins with a document


@dataclass(frozen=True)
class Source:
    """The documents of one file to train on, those held out, and in which epochs the file is read."""

    file: TextFile
    training: list[str]
    heldout: list[str]


@dataclass(frozen=True)
class PretrainingText:
    """What is read: our generic health text in every epoch, and the public files in theirs."""

    own: list[str]
    heldout_own: list[str]
    sources: list[Source]

    @property
    def training(self) -> list[str]:
        """Every document that is trained on, once."""
        return [*self.own, *(document for source in self.sources for document in source.training)]

    def of_epoch(self, epoch: int) -> list[int]:
        """Places in `training` of the documents that are read in this epoch, counted from 0."""
        places, start = list(range(len(self.own))), len(self.own)
        for source in self.sources:
            end = start + len(source.training)
            places += range(start, end) if source.file.is_read_in(epoch) else ()
            start = end
        return places


def collect_text(text_files: Sequence[TextFile]) -> PretrainingText:
    """Read public files, hold out the last 5 % of each, and add our generic health text."""
    sources = [Source(file, *split_documents(read_documents(file.path))) for file in text_files]
    return PretrainingText(own=training_text(), heldout_own=heldout_text(), sources=sources)


def pretrain(
    kind: ModelKind,
    size: ModelSize,
    text_files: Sequence[TextFile],
    out: Path | str,
    *,
    epochs: int = 12,
    seed: int = 0,
    words: Path | None = None,
    on_progress: Callable[[dict], None] | None = None,
) -> dict[str, float]:
    """Train a tokenizer and a model on public text; write `out` (complete or not at all) and return its figures.

    The tokenizer is learned from every document as often as the model reads it. `out` receives configuration,
    safetensors, tokenizer and model card (README.md). The words of the text are added to the list in the file `words`,
    if given: “known words” of runs is computed with `assets/base/clinical/public_words.txt`, so whoever changes that
    list computes stored figures anew (`python -m core refresh`). `on_progress` gets step, steps, loss (nats per token),
    tokens (so far) and seconds.

    Raises:
        ValueError: for unreadable text, or when `out` exists and is not a model folder.
    """
    out = Path(out)
    if out.exists() and any(out.iterdir()) and not (out / "config.json").exists():
        raise ValueError(f"{out} exists and does not contain a model: choose another folder to write to.")
    text = collect_text(text_files)
    torch.manual_seed(seed)
    documents, order = text.training, [text.of_epoch(epoch) for epoch in range(epochs)]
    read = (documents[place] for places in order for place in places)
    lm = build.new(kind, size, train(kind, read, build.VOCABULARY))
    figures = _optimise(lm, documents, order, seed=seed, on_progress=on_progress)
    lm.model.eval()
    figures["perplexity_heldout_text"] = perplexity(lm, text.heldout_own, max_tokens=build.CONTEXT)
    tables = [_figures_of(source, lm) for source in text.sources]
    _write(lm, out, size=size, sources=tables, epochs=epochs, seed=seed, figures=figures)
    if words is not None:
        known = words.read_text(encoding="utf-8").split() if words.exists() else []
        words.write_text("\n".join(sorted({*known, *public_words(documents)})) + "\n", encoding="utf-8")
    return figures


def _figures_of(source: Source, lm: LanguageModel) -> SourceFigures:
    return SourceFigures(
        file=source.file,
        characters=sum(map(len, source.training)),
        perplexity=perplexity(lm, source.heldout[-HELDOUT_DOCUMENTS:], max_tokens=build.CONTEXT),
        shared=shared_with_hospital(source.training),
    )


def _optimise(
    lm: LanguageModel,
    documents: Sequence[str],
    order: Sequence[Sequence[int]],
    *,
    seed: int,
    on_progress: Callable[[dict], None] | None,
) -> dict[str, float]:
    """AdamW with a short warm-up and a cosine decay to zero, over packed blocks; `order` has an epoch's documents."""
    rng = np.random.default_rng(seed)
    encoded = [np.asarray(ids, dtype=np.int64) for ids in encode(lm, documents)]
    special = np.asarray(lm.tokenizer.all_special_ids)
    if not lm.causal:
        start_from_counts(lm, encoded)
    batches = [
        batch
        for places in order
        for batch in _batches(pack(lm, [encoded[place] for place in places], rng), BATCH_BLOCKS[lm.kind], rng)
    ]
    decayed = [weight for weight in lm.model.parameters() if weight.dim() > 1]
    others = [weight for weight in lm.model.parameters() if weight.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=PEAK_RATE[lm.kind], betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, len(batches)))
    lm.model.train()
    started, tokens, recent = time.perf_counter(), 0, math.nan
    for step, blocks in enumerate(batches, start=1):
        share = MASK_SHARES[0] + (MASK_SHARES[1] - MASK_SHARES[0]) * step / len(batches)
        loss = _loss(lm, blocks, special, rng, share)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(lm.model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        tokens += blocks.size
        recent = loss.item() if math.isnan(recent) else 0.95 * recent + 0.05 * loss.item()
        if on_progress:
            seconds = time.perf_counter() - started
            on_progress({"step": step, "steps": len(batches), "loss": recent, "tokens": tokens, "seconds": seconds})
    return {
        "tokens_trained": float(tokens),
        "steps": float(len(batches)),
        "seconds": time.perf_counter() - started,
        "threads": float(torch.get_num_threads()),
    }


def start_from_counts(lm: LanguageModel, documents: Sequence[np.ndarray]) -> None:
    """Set the output bias of a masked model to each token's log frequency, so that training starts as a unigram model.

    Learning the frequencies by gradients takes hundreds of steps, whose noise erodes the first layer's initialisation
    (docs/methods/models.md, "Base models").
    """
    counts = np.bincount(np.concatenate(documents), minlength=len(lm.tokenizer)) + 0.1
    with torch.no_grad():
        lm.model.get_output_embeddings().bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))


def pack(lm: LanguageModel, documents: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """One epoch of blocks without padding: int64 of shape (blocks, CONTEXT), documents in random order.

    A block starts with BOS or [CLS] and then holds contiguous text, with documents separated by EOS or [SEP]. Because
    of `CHAIN`, about half of the blocks begin with a document, so that the model learns how texts begin at position 1.
    The rest of a document cut in this way is left out of this epoch.
    """
    first = lm.tokenizer.bos_token_id if lm.causal else lm.tokenizer.cls_token_id
    last = lm.tokenizer.eos_token_id if lm.causal else lm.tokenizer.sep_token_id
    blocks, block = [], [first]
    for place in rng.permutation(len(documents)):
        rest = [*documents[place].tolist(), last]
        while rest:
            room = build.CONTEXT - len(block)
            block, rest = block + rest[:room], rest[room:]
            if len(block) == build.CONTEXT:
                blocks.append(block)
                block = [first]
                if rng.random() >= CHAIN:
                    break
    if not blocks:
        raise ValueError(
            f"the public text is too short to pretrain on: it does not fill one block of {build.CONTEXT} tokens"
        )
    return np.asarray(blocks, dtype=np.int64)


def _batches(blocks: np.ndarray, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    order = rng.permutation(len(blocks))
    for start in range(0, len(blocks), size):
        yield blocks[order[start : start + size]]


def _rate(step: int, steps: int) -> float:
    """Share of the peak learning rate at a step."""
    warmup = max(1, round(WARMUP_SHARE * steps))
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def _loss(
    lm: LanguageModel, blocks: np.ndarray, special: np.ndarray, rng: np.random.Generator, share: float
) -> torch.Tensor:
    """Mean loss in nats: of every next token (causal), or of the tokens under a new random mask of that share."""
    ids = torch.from_numpy(blocks).to(lm.device)
    if lm.causal:
        logits = lm.head(lm.hidden(ids)[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    mask = torch.from_numpy(np.stack([draw_mask(row, special, rng, share) for row in blocks])).to(lm.device)
    return functional.cross_entropy(masked_logits(lm, ids, torch.ones_like(ids), mask), ids[mask])


def _write(
    lm: LanguageModel,
    out: Path,
    *,
    size: ModelSize,
    sources: Sequence[SourceFigures],
    epochs: int,
    seed: int,
    figures: dict[str, float],
) -> None:
    """Write next to `out` and rename, so that `out` is a complete model or absent."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        folder = Path(temporary) / out.name
        folder.mkdir()
        lm.save(folder)
        write_card(folder, lm=lm, size=size, sources=sources, epochs=epochs, seed=seed, figures=figures)
        if out.exists():
            shutil.rmtree(out)
        folder.rename(out)
