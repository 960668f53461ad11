"""The model card of a run: `README.md` with the front matter that model hubs read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from core.runs.events import replace_text
from core.spec import RunSpec

if TYPE_CHECKING:
    from core.training.accounting import Mechanism

SHOWN = (
    "perplexity_heldout",
    "perplexity_member",
    "auc_loss",
    "privacy_leakage_loss",
    "full_name_patients",
    "direct_patients",
)
WARNING = (
    "Trained on the notes of a *synthetic* hospital for teaching and measurement: no patient in it exists. "
    "It is no medical device and its text is no medical advice."
)


def write_card(folder: Path, spec: RunSpec, mechanism: Mechanism | None, metrics: pd.DataFrame) -> None:
    """Write `folder/README.md`: what was trained on what, what is promised, and what the quick audit found."""
    sections = [
        _front_matter(spec),
        f"# {folder.name}\n\n{WARNING}",
        "## Training\n\n" + _training(spec),
        "## Privacy\n\n" + _promise(spec, mechanism),
        "## Quick audit\n\n" + _figures(metrics),
        "## Spec\n\n```json\n" + spec.model_dump_json(indent=2) + "\n```",
    ]
    replace_text(folder / "README.md", "\n\n".join(sections) + "\n")


def _front_matter(spec: RunSpec) -> str:
    task = "text-generation" if spec.model.kind == "gpt2" else "fill-mask"
    return f"---\nlicense: apache-2.0\nlanguage: en\npipeline_tag: {task}\ntags: [synthetic, privacy-audit]\n---"


def _training(spec: RunSpec) -> str:
    if spec.is_base:
        return f"None: this is the public base model ({spec.model.kind}, {spec.model.base}), the control of other runs."
    training = spec.training
    return (
        f"{spec.model.kind} ({spec.model.size}, from {spec.model.base}), {training.epochs} epochs, "
        f"batch {training.batch_size}, learning rate {training.learning_rate:g}, seed {training.seed}; "
        f"cohort {spec.corpus.digest()} ({spec.corpus.patients:,} patients, 70 % of them members)."
    )


def _promise(spec: RunSpec, mechanism: Mechanism | None) -> str:
    if spec.is_base:
        return "It was never trained on the hospital's notes."
    if mechanism is None:
        return "None: it was trained without differential privacy and must be treated like the notes themselves."
    epsilon, accountant = mechanism.epsilon_with_method()
    return (
        f"({epsilon:.3g}, {mechanism.delta:g})-differential privacy for one {mechanism.unit} "
        f"({mechanism.neighbouring}): DP-SGD with σ = {mechanism.noise_multiplier:.4g}, "
        f"q = {mechanism.sample_rate:.4g}, {mechanism.steps} steps, clipping norm {mechanism.max_grad_norm:g}; "
        f"accountant {accountant}. privacy.json holds the mechanism."
    )


def _figures(metrics: pd.DataFrame) -> str:
    rows = metrics[metrics["metric"].isin(SHOWN)]
    lines = ["| figure | of | value | 95 % interval | n |", "|---|---|---|---|---|"]
    for row in rows.itertuples():
        lines.append(f"| {row.metric} | {row.arm} | {row.value:.4g} | {row.low:.4g} to {row.high:.4g} | {row.n} |")
    return "\n".join(lines)
