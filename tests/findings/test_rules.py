"""Rules: they read nothing but figures with intervals, and each claim's rule can give each verdict."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.demo import SEEDS
from core.findings import rules
from core.findings.claim import Claim, Evidence, Figure, Verdict
from core.findings.claims import CLAIMS, chosen
from core.findings.claims.again.without_noise import without_noise
from core.findings.experiments import REPORT_NOISE, at_report_noise, plain, private
from core.findings.rules import Above, Below, Within
from core.findings.stored_runs import Missing, StoredRuns
from core.runs.store import Workspace
from core.spec import PrivacySpec, RunSpec
from core.spec.model_names import MODEL_NAMES


def evidence(*intervals: tuple[float, float]) -> Evidence:
    return Evidence(
        tuple(Figure(f"model {at}", (low + high) / 2, low, high) for at, (low, high) in enumerate(intervals))
    )


@pytest.mark.parametrize(
    ("rule", "intervals", "verdict"),
    [
        (Above(), [(0.1, 0.2), (0.01, 0.3)], "holds"),
        (Above(), [(0.1, 0.2), (-0.01, 0.3)], "cannot tell"),
        (Above(), [(0.1, 0.2), (-0.3, -0.01)], "does not hold"),
        (Above(), [(0.0, 0.2)], "cannot tell"),
        (Above(0.5), [(0.4, 0.49)], "does not hold"),
        (Below(), [(-0.2, -0.1)], "holds"),
        (Below(), [(-0.2, 0.1)], "cannot tell"),
        (Below(0.05), [(0.06, 0.1), (0.0, 0.01)], "does not hold"),
        (Within(-1, 1), [(-1.0, 1.0)], "holds"),
        (Within(-1, 1), [(-0.5, 1.1)], "cannot tell"),
        (Within(-1, 1), [(-0.5, 0.5), (1.1, 1.2)], "does not hold"),
        (Within(-1, 1), [(-2.0, -1.1)], "does not hold"),
        (Above(), [(0.1, 0.2), (math.nan, math.nan)], "cannot tell"),
        (Above(), [(-0.2, -0.1), (math.nan, math.nan)], "does not hold"),
        (Above(), [], "cannot tell"),
        (Within(-1, 1), [], "cannot tell"),
    ],
)
def test_known_verdicts(rule, intervals: list[tuple[float, float]], verdict: Verdict) -> None:
    assert rule(evidence(*intervals)) == verdict


def contrived(claim: Claim) -> dict[Verdict, Evidence]:
    """Evidence for which the claim's rule has to give each of the verdicts."""
    rule = claim.rule
    if isinstance(rule, Within):
        width = rule.high - rule.low
        inside = (rule.low + width / 4, rule.high - width / 4)
        outside, across = (rule.high + width, rule.high + 2 * width), (rule.high - width / 4, rule.high + width)
    else:
        assert isinstance(rule, (Above, Below))
        above, below = (rule.line + 1, rule.line + 2), (rule.line - 2, rule.line - 1)
        inside, outside = (above, below) if isinstance(rule, Above) else (below, above)
        across = (rule.line - 1, rule.line + 1)
    return {
        "holds": evidence(inside, inside),
        "does not hold": evidence(inside, outside),
        "cannot tell": evidence(inside, across),
    }


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_each_claim_can_get_each_verdict_whatever_the_labels_and_the_order(claim: Claim) -> None:
    for verdict, table in contrived(claim).items():
        assert claim.rule(table) == verdict
        shuffled = [replace(one, label="other") for one in reversed(table.figures)]
        assert claim.rule(Evidence(tuple(shuffled))) == verdict


def test_rules_read_nothing_but_the_evidence() -> None:
    """Their module knows evidence and verdicts alone, and every claim's rule is a frozen value of that module."""
    source = Path(rules.__file__).read_text(encoding="utf-8")
    imported = {node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    assert imported == {"__future__", "collections.abc", "dataclasses", "core.findings.claim"}
    assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Import, ast.Global))]
    assert {type(claim.rule) for claim in CLAIMS} <= {Above, Below, Within}


def test_a_claim_without_an_effect_rarely_holds_or_fails() -> None:
    """Of 400 claims on three figures each without an effect, about 5 % get a verdict; more than 8.5 % is 1 in 1,000."""
    from core.findings.judging import jointly

    rng, wrong = np.random.default_rng(0), 0
    for _ in range(400):
        drawn = rng.normal(0, 1, 3)
        table = jointly([Figure("model", one, one - 1.959964, one + 1.959964) for one in drawn])
        wrong += Above()(table) != "cannot tell"
    assert wrong <= 34


def test_claims_are_complete_and_have_names_of_their_own() -> None:
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS) == len({claim.title for claim in CLAIMS})
    for claim in CLAIMS:
        assert all((claim.says, claim.figure, claim.place, claim.quantity, claim.sizes, claim.differs, claim.page))
        assert claim.paper and claim.says.endswith(".") and claim.differs.endswith(".")
        assert all(text.endswith(".") for text in claim.why.values())
    assert chosen(["j-c2"]) == [next(claim for claim in CLAIMS if claim.id == "J-c2")]
    with pytest.raises(ValueError, match="There is no claim “X-c1”"):
        chosen(["X-c1"])


def test_no_claim_shows_a_models_internal_name() -> None:
    """Kinds of models are written by `core.findings.experiments.MODEL_NAMES`."""
    for claim in CLAIMS:
        texts = (claim.title, claim.says, claim.figure, claim.quantity, claim.sizes, claim.differs, *claim.why.values())
        assert not [text for text in texts for kind in MODEL_NAMES if re.search(rf"\b{kind}\b", text)], claim.id


def _pairs() -> list[tuple[RunSpec, RunSpec]]:
    own = [(private("gpt2", epsilon, seed), without_noise(seed)) for epsilon in (8.0, 10.0) for seed in SEEDS]
    return own + [(at_report_noise(printed), without_noise(0)) for printed in REPORT_NOISE]


@pytest.mark.parametrize(("spec", "control"), _pairs())
def test_the_control_differs_in_its_noise_alone(spec: RunSpec, control: RunSpec) -> None:
    same = PrivacySpec()
    assert spec.model_copy(update={"privacy": same}) == control.model_copy(update={"privacy": same})
    assert spec.privacy.max_grad_norm == control.privacy.max_grad_norm
    assert spec.privacy.unit == control.privacy.unit


def test_usual_training_differs_in_more() -> None:
    assert plain("gpt2").training != private("gpt2", 8.0).training


def test_no_end_lies_beyond_what_is_possible_and_what_holds_together_stays() -> None:
    from core.findings.judging import jointly

    bits, joint = Figure("bits", 6.0, 3.0, 9.0, degrees=2, most=9.97), Figure("share", 0.1, 0.05, 0.2, joint=True)
    found = jointly([bits, joint]).figures
    assert found[0].high == 9.97 and -9.97 < found[0].low < 3.0
    assert (found[1].low, found[1].high) == (0.05, 0.2)
    assert jointly([joint]).figures == jointly([joint, bits]).figures[:1]


def test_a_share_of_no_text_has_wilsons_end_for_several_figures_together() -> None:
    """With 0 of 1,400 that end is z²/(1,400 + z²): Wilson's formula at 0."""
    from core.findings.measures.tables import share_of_texts

    rows = pd.DataFrame(
        {"metric": ["attempts_with_leak"], "arm": ["run"], "value": [0.0], "low": [0.0], "high": [0.003], "n": [1_400]}
    )
    runs = StoredRuns(Workspace())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoredRuns, "run", lambda self, spec: SimpleNamespace(metrics=rows))
        found = share_of_texts(runs, RunSpec(), "attempts_with_leak", 3)
        with pytest.raises(Missing, match="has no figure"):
            share_of_texts(runs, RunSpec(), "another", 3)
    z = stats.norm.ppf(1 - 0.05 / 6)
    assert (found.value, found.low) == (0.0, 0.0) and found.high == pytest.approx(z**2 / (1_400 + z**2))


@pytest.mark.parametrize("claim", chosen(["L-c4", "L-c25"]), ids=lambda claim: claim.id)
def test_a_two_sided_margin_for_a_one_sided_sentence_is_said(claim: Claim) -> None:
    assert isinstance(claim.rule, Within) and claim.rule.low == -claim.rule.high
    assert "has two sides; the paper's sentence rules out closer vectors alone" in claim.differs
