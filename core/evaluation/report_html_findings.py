"""The tables of a report that put findings side by side: at a glance, rare diseases, and what full audits add."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from core.attacks.decision import LOSS
from core.evaluation.probe_words import CAUTION
from core.evaluation.rarity import LEAST_PATIENTS
from core.evaluation.recommendation import attack_text
from core.evaluation.report_html_tables import EXCEEDS, Names, escaped, interval, table
from core.evaluation.report_rarity import signed
from core.evaluation.wording import at_most_text, epsilon_text, p_value_text
from core.writing import REPRODUCIBLE

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
    "Privacy leakage of the loss attack by rarity of the diagnoses, bucket 1 the rarest: members caught less held-out "
    "patients of the same bucket accused. 0 % is blind. Base: the public model, the control of each bucket. log p: "
    "mean log-probability of the set of diagnoses."
)
PATIENTS = (
    "Rank correlation (Spearman’s ρ) of how rare a patient’s set of diagnoses is with the loss attack’s score, patient "
    "by patient. Above 0: rarer patients score higher. Held-out patients are the control."
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
            escaped(names[row["run"]]), escaped(promise), escaped(at_most_text(row["right_guesses_counted"])),
            _identifiers(at.get((row["run"], "direct_patients"))),
            _attacked(attacked.get(row["run"])),
            _figure(at.get((row["run"], "perplexity_heldout")), "perplexity_heldout"),
        ]  # fmt: skip
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


def rarity(buckets: pd.DataFrame, patients: pd.DataFrame, said: Mapping[str, Sequence[str]], names: Names) -> str:
    """Leakage by bucket of rarity under the loss attack, the models side by side, and what every attack's says."""
    if buckets.empty and patients.empty:
        return "<p>Not measured: no patient has diagnosis codes, or too few have.</p>"
    parts = [_buckets(buckets[buckets["attack"] == LOSS], names)]
    for run, sentences in said.items():
        told = "<br>".join(map(escaped, sentences))
        parts.append(f"<p><b>{escaped(names[run])}</b><br>{told}</p>" if sentences else "")
    return "\n".join([*parts, _patients(patients, names)])


def _buckets(frame: pd.DataFrame, names: Names) -> str:
    """A row a bucket that holds enough patients."""
    at = {(row["run"], row["bucket"]): row for row in frame.to_dict("records")}
    first = frame.drop_duplicates("bucket").sort_values("bucket")
    runs, bases = list(dict.fromkeys(frame["run"])), _bases(frame)
    rows = []
    for bucket in first[first["kept"]].to_dict("records"):
        cells = [_cell(at.get((run, bucket["bucket"])), "") for run in runs]
        cells += [_cell(at.get((run, bucket["bucket"])), "base_") for run in bases]
        counts = f"{bucket['members']:,} + {bucket['heldout']:,}"
        rows.append([str(bucket["bucket"]), f"{bucket['log_probability']:.1f}".replace("-", "−"), counts, *cells])
    dropped = first[~first["kept"]]
    caption = BUCKETS
    if len(dropped):
        few = f"{len(dropped)} buckets of fewer than {LEAST_PATIENTS} patients each, {dropped['patients'].sum()} in all"
        caption += f" Left out: {few}."
    whose = [f"base of {', '.join(names[run].partition(':')[0] for run in sharing)}" for sharing in bases.values()]
    heads = ["bucket", "log p", "members + held out", *(names[run] for run in runs), *whose]
    return table(heads, rows, caption) if rows else f"<p>No bucket holds {LEAST_PATIENTS} patients.</p>"


def _cell(row: Mapping[str, Any] | None, prefix: str) -> str:
    return "–" if row is None else interval("share", row, prefix)


def _bases(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Runs that share a public base model, by the first of them; a base that is a column of its own is left out."""
    each = frame[frame["kept"]].sort_values("bucket").groupby("run", sort=False)
    figures = {run: tuple(same["base_value"]) for run, same in each}
    shown = {tuple(same["value"]) for _, same in each}
    found: dict[tuple, list[str]] = {}
    for run, values in figures.items():
        if values not in shown and not all(map(math.isnan, values)):
            found.setdefault(values, []).append(run)
    return {runs[0]: runs for runs in found.values()}


def _patients(frame: pd.DataFrame, names: Names) -> str:
    rows = []
    for row in frame.to_dict("records"):
        ends = "" if math.isnan(row["low"]) else f" ({signed(row['low'])} to {signed(row['high'])})"
        who = "members" if row["split"] == "member" else "held out"
        cells = (names[row["run"]], who, row["patients"], f"{signed(row['rho'])}{ends}", p_value_text(row["p_value"]))
        rows.append([escaped(cell) for cell in cells])
    return table(["model", "patients", "n", "ρ", "p-value"], rows, PATIENTS) if rows else ""


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
