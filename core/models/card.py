"""The model card of a base model, in Hugging Face's form."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import yaml

from core.corpus.public_text import training_text
from core.models.build import LanguageModel
from core.spec import ModelSize

CARD = """
# {title}

A {parameters:,}-parameter {kind} language model for PHI Leak Lab: the public starting point of every run, and the
control that every leak is compared with. It has read no clinical note and no person's record. It is made for teaching
and for measuring privacy; it is no source of medical knowledge.

## Text

{characters:,} characters: {sources}
{licences}
About {own_kilobytes} kB of them are generic health text of this project's own (`core/corpus/public_text.py`,
Apache-2.0). The last 5 % of every file, and own leaflets on other topics (`heldout_text()`), were held out. No text of
others is kept in this repository.

## Figures

| held-out text | {measure} |
|---|---|
| abstracts | {perplexity_heldout_abstracts:.2f} |
| own leaflets | {perplexity_heldout_text:.4f} |

{measure_note}
{steps:,.0f} steps over {tokens_trained:,.0f} tokens took {seconds:,.0f} s on {threads:.0f} threads. Tokens
are not those of other models, so these figures compare with no perplexity measured elsewhere.

## Make it again

```
{command}
```

Versions: {versions}.
"""
CAUSAL_NOTE = "Every token after the beginning of the text counts, its end included; samples of at most 256 tokens."
MASKED_NOTE = "Over the hidden tokens of 4 random 15 % masks (seed 0); samples of at most 256 tokens."


def write_card(
    folder: Path,
    *,
    lm: LanguageModel,
    size: ModelSize,
    text_files: Sequence[Path],
    epochs: int,
    seed: int,
    training_characters: int,
    figures: dict[str, float],
) -> None:
    """Write `README.md` into `folder`; its front matter gives the held-out perplexities in machine-readable form."""
    title = f"{lm.kind}-{size}"
    metrics = [
        {"type": name, "value": round(figures[name], 4)}
        for name in ("perplexity_heldout_text", "perplexity_heldout_abstracts")
    ]
    front = {
        "license": "apache-2.0",
        "language": "en",
        "library_name": "transformers",
        "pipeline_tag": "text-generation" if lm.causal else "fill-mask",
        "model-index": [
            {
                "name": title,
                "results": [
                    {
                        "task": {"type": "text-generation" if lm.causal else "fill-mask"},
                        "dataset": {"type": "text", "name": "held-out public text"},
                        "metrics": metrics,
                    }
                ],
            }
        ],
    }
    body = CARD.format(
        title=title,
        kind=lm.kind,
        parameters=lm.model.num_parameters(),
        characters=training_characters,
        own_kilobytes=own_kilobytes(),
        sources=", ".join(f"`{'/'.join(path.parts[-2:])}`" for path in text_files) or "no files",
        licences=licences(text_files),
        measure="perplexity" if lm.causal else "pseudo-perplexity",
        measure_note=CAUSAL_NOTE if lm.causal else MASKED_NOTE,
        command=command(lm.kind, size, text_files, epochs, seed),
        versions=", ".join(
            f"{name} {version(name)}" for name in ("torch", "transformers", "tokenizers", "safetensors")
        ),
        **figures,
    )
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n{body}", encoding="utf-8")


def command(kind: str, size: str, text_files: Sequence[Path], epochs: int, seed: int) -> str:
    """The command line that reproduces the model, with the last two path parts of each file."""
    texts = " ".join(f"--text DATA/{'/'.join(path.parts[-2:])}" for path in text_files)
    return f"python -m core pretrain --model {kind} --size {size} --epochs {epochs} --seed {seed} {texts}".strip()


def own_kilobytes() -> int:
    """Size of our own training text in kB."""
    return round(sum(map(len, training_text())) / 1000)


def licences(text_files: Sequence[Path]) -> str:
    """A list of the `LICENCE` notes next to, or one folder above, each source, without repetition."""
    notes: dict[str, None] = {}
    for path in text_files:
        for folder in (path.parent, path.parent.parent):
            if (folder / "LICENCE").is_file():
                notes["; ".join((folder / "LICENCE").read_text(encoding="utf-8").strip().splitlines())] = None
                break
    return "\n".join(["", *[f"- {note}" for note in notes], ""]) if notes else ""
