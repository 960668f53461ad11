"""How much audits prove, and whether computed chances are true: `python -m core bench audit-power --json`.

Three figures, each with `value`, `low` and `high`, and what they are made of:

- `one_run_over_promise_eps8`: what the one-run audit by the mechanism's own curve proves (Mahloujifar et al. 2025), as
  a share of the promised ε = 8, with `CANARIES` canaries and δ = 10⁻⁵. The mechanism is one Gaussian release without
  sampling, the auditor's guesses are the best ones, and the share of canaries that is guessed was fixed beforehand.
  Median and 95 % range of `SEEDS` simulated audits. `cases` has the same for other numbers of canaries, beside the
  bound for the worst mechanism (Steinke et al. 2023), with all canaries guessed and with the share that proves most.
- `null_false_proofs`: share of `SEEDS` audits with blind guesses that prove something, in the case with the most of
  them, with Wilson's interval. A bound at 95 % may do so in 5 %.
- `np_extraction_agreement`: share of `VALUES` identifiers whose computed chance (Hayes et al. 2025,
  `core.models.generation.continuations`) agrees with `SAMPLES` samples: a two-sided binomial test at 0.05 / `VALUES`.
  The model is the shipped GPT-2 without privacy, the values are drawn at random from those of its patients with a
  chance of at least `LEAST` after a prompt. Rows are dropped as soon as their text can become none of the values.
  `np_extraction_chances` is the smallest and the largest chance among them: rarer values are not compared.
- `white_box_eps8`: nothing is simulated here. What gradients planted in the trainings of the shipped GPT-2 with ε = 8
  proved by the runs' own curves (`python -m core prove RUN --canaries 5000`), to an attacker who sees every step. It is
  read from the shipped results, with the number of canaries, the seed, the right guesses and the ceiling.
"""

from __future__ import annotations

import json as json_format
import math
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy import stats

from bench.forgetting import RUN
from core.attacks.memorisation.discoverable import discoverable
from core.attacks.prompts import PROMPTS
from core.evaluation.guarantee.curve_bound import curve_proof
from core.evaluation.guarantee.epsilon_bounds import one_run_epsilon
from core.evaluation.guarantee.step_audit import stored_proofs
from core.evaluation.stats.intervals import proportion_interval
from core.models.build import LanguageModel
from core.models.encoding import decode, encode
from core.models.generation.continuations import begins_with
from core.models.generation.token_sampling import TokenSampler
from core.phi.written_forms import written_forms
from core.pipeline.full_audit import target_of
from core.runs.store import Workspace
from core.spec import AuditSpec
from core.training.accounting.gaussian import noise_multiplier
from core.training.accounting.mechanism import Mechanism

DELTA = 1e-5
CANARIES = 200
CASES = ((8.0, 48), (8.0, CANARIES), (4.0, 1_000))  # promised ε, canaries
SHARES = (1.0, 0.5, 0.25, 0.125)  # of the canaries that are guessed: those of which the auditor is surest
SEEDS = 200
VALUES = 20
SAMPLES = 100_000
LEAST = 5e-5
ROWS = 2_000  # tokens drawn at once


def main(json: bool = False) -> None:
    """Print the three figures, and the cases and values behind them."""
    begun = time.perf_counter()
    cases = [case(epsilon, canaries) for epsilon, canaries in CASES]
    chosen = next(one for one in cases if (one["epsilon"], one["canaries"]) == (8.0, CANARIES))
    false = max(one["null_false_proofs"] for one in cases)
    values = agreement()
    agreed, chances = sum(one["agrees"] for one in values), [one["chance"] for one in values]
    found = {
        "one_run_over_promise_eps8": {key: one / 8 for key, one in chosen["by_curve"].items()},
        "null_false_proofs": _share(round(false * SEEDS), SEEDS),
        "np_extraction_agreement": _share(agreed, len(values)),
        "np_extraction_chances": {"low": min(chances), "high": max(chances)},
        "white_box_eps8": white_box(Workspace()),
        "cases": cases,
        "values": values,
        "seconds": round(time.perf_counter() - begun, 1),
    }
    print(json_format.dumps(found) if json else "\n".join(_lines(found)))


def case(epsilon: float, canaries: int) -> dict[str, Any]:
    """What both bounds prove about one Gaussian release with this ε, and how often blind guesses prove something.

    For each bound, the share of canaries that is guessed is the one of `SHARES` with the highest bound at the expected
    number of right guesses: it depends on the mechanism alone, so it could be fixed before any audit.
    """
    mechanism = Mechanism(
        unit="note",
        noise_multiplier=noise_multiplier(target_epsilon=epsilon, sample_rate=1.0, steps=1, delta=DELTA),
        sample_rate=1.0,
        steps=1,
        delta=DELTA,
        max_grad_norm=1.0,
    )

    @cache
    def by_curve(guesses: int, correct: int) -> float:
        return curve_proof(mechanism, canaries=canaries, guesses=guesses, correct=correct).epsilon

    @cache
    def worst(guesses: int, correct: int) -> float:
        return one_run_epsilon(canaries=canaries, guesses=guesses, correct=correct, delta=DELTA)

    right = {guesses: right_guesses(mechanism.noise_multiplier, canaries, guesses) for guesses in _guesses(canaries)}
    found: dict[str, Any] = {"epsilon": epsilon, "canaries": canaries}
    for name, bound in (("worst_mechanism", worst), ("by_curve", by_curve)):
        typical = {guesses: bound(guesses, int(np.median(counts))) for guesses, counts in right.items()}
        guesses = max(typical, key=lambda one: typical[one])
        found[name] = _range([bound(guesses, int(count)) for count in right[guesses]])
        found |= {f"{name}_guesses": guesses, f"{name}_all_guessed": typical[canaries]}
    guesses = found["by_curve_guesses"]
    blind = np.random.default_rng([canaries, 7]).binomial(guesses, 0.5, SEEDS)
    found["over_promise"] = float(np.mean([by_curve(guesses, int(count)) > epsilon for count in right[guesses]]))
    found["null_false_proofs"] = float(np.mean([by_curve(guesses, int(count)) > 0 for count in blind]))
    return found


def _guesses(canaries: int) -> list[int]:
    return [round(share * canaries) for share in SHARES]


def right_guesses(sigma: float, canaries: int, guesses: int) -> np.ndarray:
    """Right guesses of the best auditor in `SEEDS` simulated audits, (SEEDS,).

    Each canary is in by a fair coin and shows in or out (1 or 0) plus noise of standard deviation σ. Those shown
    farthest from ½ are guessed.
    """
    rng = np.random.default_rng([canaries, guesses])
    inside = rng.random((SEEDS, canaries)) < 0.5
    shown = inside + sigma * rng.standard_normal((SEEDS, canaries)) - 0.5
    surest = np.argsort(-np.abs(shown), axis=1)[:, :guesses]
    return np.take_along_axis((shown > 0) == inside, surest, axis=1).sum(axis=1)


def _range(bounds: Sequence[float]) -> dict[str, float]:
    low, value, high = np.quantile(bounds, [0.025, 0.5, 0.975])
    return {"value": float(value), "low": float(low), "high": float(high)}


def _share(count: int, of: int) -> dict[str, float]:
    low, high = proportion_interval(count, of)
    return {"value": count / of, "low": low, "high": high}


def white_box(workspace: Workspace) -> list[dict[str, Any]]:
    """What planted gradients proved about every stored GPT-2 with ε = 8: one row per run, canaries and seed."""
    runs = [run for run in workspace.runs() if run.spec.model.kind == "gpt2" and run.spec.privacy.target_epsilon == 8.0]
    return [{"run": run.id, **row} for run in runs for row in stored_proofs(workspace.audit(run.id)).to_dict("records")]


# Extraction ----------------------------------------------------------------------------------------------------------


def agreement() -> list[dict[str, Any]]:
    """`VALUES` identifiers: the computed chance of each after a prompt, and how many of `SAMPLES` samples had it."""
    workspace = Workspace()
    target = target_of(workspace.run(RUN), workspace)
    table = discoverable(target, lambda done, total: None)["discoverable"]
    likely = table[table["log_p"] >= math.log(LEAST)].reset_index(drop=True)
    drawn = likely.iloc[np.random.default_rng(0).permutation(len(likely))[:VALUES]]
    people = target.corpus.patients.set_index("patient_id")
    found = []
    for prompt, rows in drawn.groupby("prompt_id"):
        forms = [written_forms(row.field, people.loc[row.patient_id, row.field]) for row in rows.itertuples()]
        (text,) = (one.text for one in PROMPTS if one.prompt_id == prompt)
        counts = sample_counts(target.lm, text, forms, target.spec.audit, SAMPLES, seed=int(prompt))
        for row, count in zip(rows.itertuples(), counts, strict=True):
            chance = math.exp(row.log_p)
            p_value = float(stats.binomtest(count, SAMPLES, chance).pvalue)
            found.append(
                {
                    "prompt": text,
                    "field": row.field,
                    "chance": chance,
                    "samples": SAMPLES,
                    "counted": count,
                    "p_value": p_value,
                    "agrees": p_value > 0.05 / VALUES,
                }
            )
    return found


def sample_counts(
    lm: LanguageModel, prompt: str, values: Sequence[Sequence[str]], audit: AuditSpec, samples: int, *, seed: int
) -> list[int]:
    """How many of `samples` samples begin with each value, drawn token by token by the attack's sampler.

    Samples that have written the same tokens share one forward pass. A sample is dropped when nothing that may follow
    can change which values it begins with.
    """
    choose = TokenSampler(temperature=audit.temperature, top_k=audit.top_k, top_p=audit.top_p, greedy=False)
    rng = np.random.default_rng([seed, 20])
    start = [lm.tokenizer.bos_token_id, *encode(lm, [prompt])[0]]
    counts = [0] * len(values)
    going: dict[tuple[int, ...], int] = {(): samples}  # tokens so far → how many samples have written them
    for step in range(audit.new_tokens + 1):
        grown: dict[tuple[int, ...], int] = {}
        for tokens, number in going.items():
            if step == audit.new_tokens:
                _count(decode(lm, tokens), values, number, counts)
                continue
            with torch.inference_mode():
                logits = lm.model(input_ids=torch.tensor([[*start, *tokens]])).logits[:, -1].float()
            for first in range(0, number, ROWS):
                rows = min(ROWS, number - first)
                drawn = choose(logits.expand(rows, -1), torch.from_numpy(rng.random(rows)))
                for token, times in zip(*(one.tolist() for one in drawn.unique(return_counts=True)), strict=True):
                    if token == lm.tokenizer.eos_token_id:
                        _count(decode(lm, tokens), values, times, counts)
                    else:
                        grown[(*tokens, token)] = grown.get((*tokens, token), 0) + times
        going = {}
        for tokens, number in grown.items():
            text = decode(lm, tokens)
            if _open(text, values):
                going[tokens] = number
            else:
                _count(text, values, number, counts)
        if not going:
            break
    return counts


def _open(text: str, values: Sequence[Sequence[str]]) -> bool:
    """Whether what follows decides which values `text` begins with: it is the beginning, or all, of one of them."""
    starts = {text.lower(), text.lower().removeprefix(" ")}
    return any(form.lower().startswith(start) for forms in values for form in forms for start in starts)


def _count(text: str, values: Sequence[Sequence[str]], number: int, counts: list[int]) -> None:
    for place, forms in enumerate(values):
        counts[place] += number * any(begins_with(text, form) for form in forms)


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [
        f"{name}: {found[name]['value']:.3f} ({found[name]['low']:.3f} to {found[name]['high']:.3f})"
        for name in ("one_run_over_promise_eps8", "null_false_proofs", "np_extraction_agreement")
    ]
    for one in found["cases"]:
        worst, own = one["worst_mechanism"]["value"], one["by_curve"]["value"]
        lines.append(
            f"ε = {one['epsilon']:g}, {one['canaries']:,} canaries: worst mechanism {worst:.2f} "
            f"({one['worst_mechanism_all_guessed']:.2f} if all are guessed), by the curve {own:.2f} "
            f"({one['by_curve_all_guessed']:.2f}); blind guesses prove something in {one['null_false_proofs']:.1%}"
        )
    lines += [
        f"{one['run']}, every step seen, {one['canaries']:,} planted gradients: {one['correct']} of {one['guesses']} "
        f"right prove {one['proved']:.2f}, by the curve {one['proved_by_curve']:.2f} of at most {one['ceiling']:.2f}"
        for one in found["white_box_eps8"]
    ]
    lines += [
        f"{one['field']} after “{one['prompt']}”: {one['chance']:.2e} computed, {one['counted']} of {one['samples']:,}"
        for one in found["values"]
    ]
    rarest, likeliest = found["np_extraction_chances"].values()
    lines.append(f"computed chances of these values: {rarest:.2e} to {likeliest:.2e}")
    return [*lines, f"{found['seconds']} s"]
