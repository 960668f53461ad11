"""What page Train expects of a training before it starts: which accountant answers, and how ε is rounded."""

from __future__ import annotations

from functools import partial

import pytest

from core.evaluation.guarantee.consequences import consequences
from core.jobs.engine import Engine
from core.spec import PrivacySpec, RiskLimit, TrainingSpec
from pages.parts.train import risk_settings
from pages.parts.train.preview import Preview, preview
from tests.pages.visit import visit

opened = partial(visit, "train", epochs_private_45="2", batch_private_16="16", cohort="tiny")


@pytest.fixture
def data(monkeypatch, tmp_path):
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    return tmp_path


def test_hovers_of_the_tradeoff_curve_round_its_limits_up():
    found = consequences(RiskLimit(caught=0.1, accused=0.01), sample_rate=0.1, steps=50, delta=1e-5)
    curve = next(line for line in risk_settings._figure(found).data if line.name == "this training")
    told = [float(text.split("\u00a0")[0].split()[-1]) for text in curve.customdata]
    assert all(limit >= y - 1e-6 for limit, y in zip(told, curve.y, strict=True) if limit < 100)
    assert max(limit - y for limit, y in zip(told, curve.y, strict=True)) < 0.02


def test_of_a_run_planned_by_gdp_figure_and_curve_are_its_guarantee():
    """GDP under-reports (docs/methods/accounting.md): its noise for ε = 8 gives 9.22 here, as PRV counts."""
    training = TrainingSpec(batch_size=256, epochs=12)
    coming = preview(PrivacySpec(target_epsilon=8.0, accountant="gdp"), training, notes=3_000, patients=300)
    assert coming.counted_by == "prv" and coming.answered_by is None, "no accountant stood in for another"
    assert coming.epsilon == pytest.approx(9.22, abs=0.01) and coming.curve[1][-1] == pytest.approx(coming.epsilon)
    none = preview(PrivacySpec(noise_multiplier=1e-20), training, notes=3_000, patients=300)
    assert (none.counted_by, none.answered_by) == ("rdp", "rdp")


def test_an_epsilon_is_rounded_up_as_a_promise(data, monkeypatch):
    """5.003 is not a promise of 5: not in the figure, nor in the sentence below it."""
    coming = Preview(10, (), 0.9, 0.1, 5.003, 1e-5, counted_by="prv", curve=((1, 10), (1.0, 5.003)))
    monkeypatch.setattr("pages.parts.train.preview.preview", lambda *_, **__: coming)
    app = opened(epsilon="5")
    assert {metric.label: metric.value for metric in app.metric}["ε per note"] == "5.01"
    assert any(caption.value.startswith("ε = 5.01 per note") for caption in app.caption)


def test_gdp_is_said_to_have_planned_and_prv_to_have_counted(data):
    app = opened(epsilon="8")
    app.selectbox(key="accountant").set_value("gdp").run()
    told = " ".join(caption.value for caption in app.caption)
    assert "computed by PRV. GDP chose the noise, for ε = 8." in told
    assert not any("has no result here" in warning.value for warning in app.warning)
