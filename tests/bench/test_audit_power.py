"""The benchmark of audits: its simulated auditor against theory, its samples against the model's own sampler."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from bench import audit_power
from core.models.generation.continuations import begins_with
from core.models.generation.generate import sample
from core.spec import AuditSpec
from tests.tiny_models import tiny


def test_the_auditor_is_right_as_often_as_the_best_attack_can_be():
    """All guessed: Φ(1/2σ) of the canaries. The surest quarter: more, by the density of the noise."""
    sigma, canaries = 0.7, 400
    everyone = audit_power.right_guesses(sigma, canaries, canaries)
    assert everyone.mean() / canaries == pytest.approx(stats.norm.cdf(1 / (2 * sigma)), abs=0.01)
    surest = audit_power.right_guesses(sigma, canaries, canaries // 4)
    shown = np.random.default_rng(1).normal(0.5, sigma, 400_000)
    cut = np.quantile(np.abs(shown), 0.75)
    assert surest.mean() / (canaries // 4) == pytest.approx((shown[np.abs(shown) > cut] > 0).mean(), abs=0.01)


def test_a_case_proves_more_by_the_curve_and_never_more_than_promised(monkeypatch):
    monkeypatch.setattr(audit_power, "SEEDS", 40)
    found = audit_power.case(8.0, 48)
    assert 0 < found["worst_mechanism"]["value"] < found["by_curve"]["value"] < 8
    assert found["by_curve_all_guessed"] == pytest.approx(1.70, abs=0.15), "docs/methods/audits.md"
    assert found["over_promise"] <= 0.15 and found["null_false_proofs"] <= 0.2


def test_samples_with_shared_passes_are_samples_of_the_model():
    lm = tiny("gpt2", seed=4, spread=6)
    audit = AuditSpec(new_tokens=3)
    settings = {"temperature": audit.temperature, "top_k": audit.top_k, "top_p": audit.top_p}
    texts = sample(lm, ["Patient:"] * 4_000, new_tokens=3, seeds=list(range(4_000)), batch_size=1_000, **settings)
    starts = [text.strip()[:3].strip() for text in texts if text.isascii() and text.strip()[:3].strip().isalpha()]
    values = [[one] for one in list(dict.fromkeys(starts))[:20]]
    naive = [sum(begins_with(text, form) for text in texts for form in forms) for forms in values]
    counts = audit_power.sample_counts(lm, "Patient:", values, audit, 4_000, seed=1)
    assert sum(naive) > 30
    for one, other in zip(naive, counts, strict=True):
        assert stats.fisher_exact([[one, 4_000 - one], [other, 4_000 - other]]).pvalue > 0.05 / len(values)


def test_the_figures_are_printed_under_their_keys(monkeypatch, capsys):
    one = {"value": 4.0, "low": 2.0, "high": 6.0}
    made = {"worst_mechanism": one, "by_curve": one, "worst_mechanism_all_guessed": 1.0, "by_curve_all_guessed": 2.0}
    monkeypatch.setattr(
        audit_power,
        "case",
        lambda epsilon, canaries: {"epsilon": epsilon, "canaries": canaries, "null_false_proofs": 0.03, **made},
    )
    value = {"prompt": "Re:", "field": "mrn", "chance": 0.1, "samples": 9, "counted": 1, "p_value": 0.5, "agrees": True}
    monkeypatch.setattr(audit_power, "agreement", lambda: [value, value | {"agrees": False, "chance": 2e-4}])
    proof = {"run": "r", "canaries": 5_000, "correct": 458, "guesses": 500, "proved": 2.1, "proved_by_curve": 3.4}
    monkeypatch.setattr(audit_power, "white_box", lambda workspace: [proof | {"ceiling": 10.1}])
    audit_power.main(json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["one_run_over_promise_eps8"] == {"value": 0.5, "low": 0.25, "high": 0.75}
    assert found["null_false_proofs"]["value"] == 0.03 and found["np_extraction_agreement"]["value"] == 0.5
    assert found["np_extraction_chances"] == {"low": 2e-4, "high": 0.1}
    assert found["white_box_eps8"][0]["proved_by_curve"] == 3.4
    audit_power.main()
    out = capsys.readouterr().out
    assert "mrn after “Re:”: 1.00e-01 computed, 1 of 9" in out
    assert "computed chances of these values: 2.00e-04 to 1.00e-01" in out
    assert "458 of 500 right prove 2.10, by the curve 3.40 of at most 10.10" in out
