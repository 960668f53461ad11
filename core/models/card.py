"""The model card of a base model, in Hugging Face's form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import yaml

from core.corpus.public_text import training_text
from core.models.build import LanguageModel
from core.models.public_sources import TextFile
from core.spec import ModelSize

CARD = """
# {title}

A {parameters:,}-parameter {kind} language model for PHI Leak Lab: the public starting point of every run, and the
control that every leak is compared with. It has read public text only: nothing of the hospitals whose patients the app
attacks. It is made for teaching and for measuring privacy; it is no source of medical knowledge.

## Text

| text | epochs | characters | held-out {measure} | shared with the hospital |
|---|---|---|---|---|
{rows}
| own leaflets | {epochs} | {own_characters:,} | {perplexity_heldout_text:.4f} | 0.000 % |

The last 5 % of every file, and own leaflets on other topics, were held out. A file with fewer epochs than the others is
read in the first ones. {measure_note}

“Shared with the hospital” is the share of the different sequences of five words in the notes of a `classroom` cohort
(digits masked) that the text contains too. Ordinary clinical English is shared; the project's own text shares none.

The leaflets are generic health text of this project (`core/corpus/public_text.py`, Apache-2.0). No text of others is
kept in this repository.
{licences}
## Training

{steps:,.0f} steps over {tokens_trained:,.0f} tokens took {seconds:,.0f} s on {threads}. Tokens
are not those of other models, so these figures compare with no perplexity measured elsewhere.

## Make it again

```
{command}
```

Versions: {versions}.
"""
CAUSAL_NOTE = (
    "Perplexity: every token after the beginning of the text counts, its end included; samples of at most 256 tokens."
)
MASKED_NOTE = (
    "Pseudo-perplexity: over the hidden tokens of 4 random 15 % masks (seed 0); samples of at most 256 tokens."
)


@dataclass(frozen=True)
class SourceFigures:
    """What a card says of one file: characters trained on, held-out perplexity, and wording shared with a hospital."""

    file: TextFile
    characters: int
    perplexity: float
    shared: float

    def row(self, epochs: int) -> str:
        """The file's row of the table of texts; `epochs` are those of the whole pretraining."""
        read = epochs if self.file.epochs is None else min(epochs, self.file.epochs)
        figures = f"{self.characters:,} | {self.perplexity:.2f} | {100 * self.shared:.3f} %"
        return f"| `{self.file.name}` | {read} | {figures} |"


def write_card(
    folder: Path,
    *,
    lm: LanguageModel,
    size: ModelSize,
    sources: Sequence[SourceFigures],
    epochs: int,
    seed: int,
    figures: dict[str, float],
) -> None:
    """Write `README.md` into `folder`; its front matter gives the held-out perplexities in machine-readable form."""
    title = f"{lm.kind}-{size}"
    metrics = [{"type": "perplexity_heldout_text", "value": round(figures["perplexity_heldout_text"], 4)}]
    files, threads = [source.file for source in sources], round(figures["threads"])
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
        rows="\n".join(source.row(epochs) for source in sources),
        epochs=epochs,
        own_characters=sum(map(len, training_text())),
        licences=licences([file.path for file in files]),
        measure="perplexity" if lm.causal else "pseudo-perplexity",
        measure_note=CAUSAL_NOTE if lm.causal else MASKED_NOTE,
        command=command(lm.kind, size, files, epochs, seed),
        versions=", ".join(
            f"{name} {version(name)}" for name in ("torch", "transformers", "tokenizers", "safetensors")
        ),
        threads=f"{threads} thread{'s' * (threads > 1)}",
        **{name: value for name, value in figures.items() if name != "threads"},
    )
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n{body}", encoding="utf-8")


def command(kind: str, size: str, files: Sequence[TextFile], epochs: int, seed: int) -> str:
    """The command line that reproduces the model, with the last two path parts of each file."""
    texts = " ".join(f"--text DATA/{file.name}" + ("" if file.epochs is None else f"@{file.epochs}") for file in files)
    return f"python -m core pretrain --model {kind} --size {size} --epochs {epochs} --seed {seed} {texts}".strip()


def licences(text_files: Sequence[Path]) -> str:
    """A list of the `LICENCE` notes next to, or one folder above, each source, without repetition."""
    notes: dict[str, None] = {}
    for path in text_files:
        for folder in (path.parent, path.parent.parent):
            if (folder / "LICENCE").is_file():
                content = (folder / "LICENCE").read_text(encoding="utf-8").strip()
                lines = re.sub(r"\n\s+", " ", content).splitlines()  # an indented line goes on with the one before
                notes["; ".join(lines)] = None
                break
    return "\n".join(["", *[f"- {note}" for note in notes], ""]) if notes else ""
