"""The tables of a report that put findings side by side: at a glance, rare diseases, and what full audits add."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from core.common.formatting import REPRODUCIBLE
from core.evaluation.probes.cards import CAUTION
from core.evaluation.rarity.profiles import LEAST
from core.evaluation.rarity.trend import signed
from core.evaluation.report.html_tables import EXCEEDS, Names, escaped, interval, table
from core.evaluation.sweep.recommendation import attack_text
from core.evaluation.wording import at_most_text, epsilon_text, p_value_text

ARMS = {"run": "members’ notes", "heldout": "held-out notes", "base": "members’ notes, public base model"}
GLANCE = (
    "Right guesses: the largest chance that a guess whether one unit was in the data is right, where in and out were "
    "equally likely beforehand and the attacker sees every step, by this run's exact accounting (a coin: 50 %). "
    "Identifiers: share of patients of whom it wrote any, and of held-out patients. "
    "Membership: how often the strongest attack that was run tells a patient who was trained on from another (a coin: "
    "0.5). "
    "Perplexity: on held-out notes, lower is more useful; for BERT and DistilBERT a pseudo-perplexity, which does not "
    "compare with GPT-2's."
)
BUCKETS = (
    "How well members are told from held-out patients of like rarity: AUC within the bucket, 0.5 is blind; bucket 1 "
    "holds the rarest sets of diagnoses. Under the likelihood ratio to the public model, or under the loss where there "
    "is none. Base: the loss attack on the public model, the control of each bucket. log p: mean log-probability."
)
TRENDS = (
    "Change: how the AUC goes from the most common to the rarest profiles; above 0, rarer patients leak more. p: by "
    "permutation over patients, with Holm’s correction over the model’s attacks. ρ: rank correlation of rarity and "
    "score; above 0, rarer patients score higher, trained on or not. Adjusted: what one standard deviation of rarity "
    "adds to members’ scores beyond held-out patients’, at the same number of codes and length; above 0, rarer members "
    "stand out more."
)


def glance(models: pd.DataFrame, controls: pd.DataFrame, strongest: pd.DataFrame, names: Names) -> str:
    """A row a model with what decides: promise, odds, identifiers against the control, membership, usefulness."""
    attacked = {row["run"]: row for row in strongest.to_dict("records")}
    at = {(row["run"], row["metric"]): row for row in controls.to_dict("records")}
    rows = []
    for row in models.to_dict("records"):
        promise = "read no notes" if row["epsilon"] == 0 else "none"
        if row["unit"]:
            promise = f"ε = {epsilon_text(row['epsilon'])} per {row['unit']}"
            promise += "" if row["noise_source"] == "secret" else f" ({REPRODUCIBLE})"
        cells = [
            escaped(names[row["run"]]),
            escaped(promise),
            escaped(at_most_text(row["right_guesses_counted"])),
            _identifiers(at.get((row["run"], "direct_patients"))),
            _attacked(attacked.get(row["run"])),
            _figure(at.get((row["run"], "perplexity_heldout")), "perplexity_heldout"),
        ]
        rows.append(cells)
    heads = ["model", "promise", "right guesses", "patients with an identifier written", "membership", "perplexity"]
    return table(heads, rows, GLANCE)


def _figure(row: Mapping[str, Any] | None, metric: str) -> str:
    return "–" if row is None else interval(metric, row)


def _attacked(row: Mapping[str, Any] | None) -> str:
    return "–" if row is None else f"{interval('auc', row)}<br><span class=soft>{escaped(attack_text(row))}</span>"


def _identifiers(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "–"
    said = f'<span class="bad">{EXCEEDS}</span>' if row["verdict"] == EXCEEDS else escaped(row["verdict"])
    control = interval("share", row, "heldout_")
    return f"{interval('share', row)}<br><span class=soft>held out {control}</span><br>{said}"


def rarity(buckets: pd.DataFrame, trends: pd.DataFrame, said: Mapping[str, Sequence[str]], names: Names) -> str:
    """How well members are recognised at each rarity, models side by side, and what attacks say of a trend."""
    if buckets.empty and trends.empty:
        return "<p>Not measured: no patient has diagnosis codes, or too few have.</p>"
    parts = [_buckets(buckets, names), _trends(trends, names)]
    for run, sentences in said.items():
        told = "<br>".join(map(escaped, sentences[:1]))  # the first attack; the table has the others
        parts.append(f"<p><b>{escaped(names[run])}</b><br>{told}</p>" if sentences else "")
    return "\n".join(parts)


def _buckets(frame: pd.DataFrame, names: Names) -> str:
    """A row a bucket that holds enough members and held-out patients."""
    at = {(row["run"], row["bucket"]): row for row in frame[frame["kept"]].to_dict("records")}
    first = frame[frame["kept"]].drop_duplicates("bucket").sort_values("bucket")
    runs, bases = list(dict.fromkeys(frame["run"])), _bases(frame)
    rows = []
    for bucket in first.to_dict("records"):
        cells = [_cell(at.get((run, bucket["bucket"])), "") for run in runs]
        cells += [_cell(at.get((run, bucket["bucket"])), "base_") for run in bases]
        counts = f"{bucket['members']:,} + {bucket['heldout']:,}"
        rows.append([str(bucket["bucket"]), f"{bucket['log_probability']:.1f}".replace("-", "−"), counts, *cells])
    whose = [f"base of {', '.join(names[run].partition(':')[0] for run in sharing)}" for sharing in bases.values()]
    heads = ["bucket", "log p", "members + held out", *(names[run] for run in runs), *whose]
    few = f"<p>No bucket holds {LEAST} members and {LEAST} held-out patients.</p>"
    return table(heads, rows, BUCKETS) if rows else few


def _cell(row: Mapping[str, Any] | None, prefix: str) -> str:
    if row is None or math.isnan(row[f"{prefix}auc"]):
        return "–"
    return interval(
        "auc_loss", {"value": row[f"{prefix}auc"], "low": row[f"{prefix}low"], "high": row[f"{prefix}high"]}
    )


def _bases(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Runs that share a public base model, by the first of them; a base that is a column of its own is left out."""
    each = frame[frame["kept"]].sort_values("bucket").groupby("run", sort=False)
    figures = {run: tuple(same["base_auc"]) for run, same in each}
    shown = {tuple(same["auc"]) for _, same in each}
    found: dict[tuple, list[str]] = {}
    for run, values in figures.items():
        if values not in shown and not all(map(math.isnan, values)):
            found.setdefault(values, []).append(run)
    return {runs[0]: runs for runs in found.values()}


def _trends(frame: pd.DataFrame, names: Names) -> str:
    """A row a model and attack that was tested, or could not be."""
    rows = []
    for row in frame.to_dict("records"):
        tested = not math.isnan(row["p_corrected"])
        cells = (
            names[row["run"]],
            row["attack"],
            row["rarity"],
            f"{row['auc']:.3f}",
            _ends(row, "change", "low", "high") if tested else "–",
            p_value_text(row["p_corrected"]) if tested else "–",
            _ends(row, "adjusted", "adjusted_low", "adjusted_high") if tested else "–",
            *(signed(row[side]) if not math.isnan(row[side]) else "–" for side in ("members_rho", "heldout_rho")),
        )
        rows.append([escaped(cell) for cell in cells])
    heads = [
        "model",
        "attack",
        "do rarer patients leak more?",
        "AUC",
        "change",
        "p",
        "adjusted",
        "ρ members",
        "ρ held out",
    ]
    return table(heads, rows, TRENDS) if rows else ""


def _ends(row: Mapping[str, Any], *columns: str) -> str:
    value, low, high = (signed(row[column]) for column in columns)
    return f"{value} ({low} to {high})"


def memorised(frame: pd.DataFrame, names: Names) -> str:
    """The prefix attack: how many notes' rests came back word for word, beside both controls."""
    if frame.empty:
        return ""
    runs, lengths = list(dict.fromkeys(frame["run"])), sorted(set(frame["prefix_tokens"]))
    at = {(row["run"], row["arm"], row["prefix_tokens"]): row for row in frame.to_dict("records")}
    rows = []
    for run in runs:
        for arm, told in ARMS.items():
            found = [at.get((run, arm, length)) for length in lengths]
            if any(row is not None for row in found):
                cells = ["–" if row is None else interval("share", row) for row in found]
                notes = next(row["notes"] for row in found if row is not None)
                rows.append([escaped(names[run]), told, f"{notes:,}", *cells])
    heads = ["model", "whose", "notes", *(f"after {length} tokens" for length in lengths)]
    return table(heads, rows, "Prefix attack: share of notes whose rest it wrote word for word.")


def probes(frame: pd.DataFrame, names: Names) -> str:
    """The identity probes in words, each with its controls."""
    rows = []
    for row in frame.to_dict("records"):
        verdict = escaped(row["verdict"])
        marked = f'<span class="bad">{verdict}</span>' if row["verdict"] == "leak" else verdict
        cells = [escaped(row[name]) for name in ("question", "answer", "controls")]
        rows.append([escaped(names[row["run"]]), *cells, marked])
    caption = f"Identity probes of the full audit. {CAUTION}"
    return table(["model", "probe", "found", "controls", "verdict"], rows, caption) if rows else ""
