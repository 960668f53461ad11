"""What page Train expects of a training before it starts: its time, which accountant answers, how ε is rounded."""

from __future__ import annotations

import re
from functools import partial

import pytest

from core.common.formatting import duration_text
from core.evaluation.guarantee.consequences import consequences
from core.jobs.engine import Engine
from core.jobs.limits import Limits, Refused, User
from core.jobs.times.costs import default_stages, whole
from core.spec import CORPUS_PRESETS, CorpusSpec, ModelSpec, PrivacySpec, RiskLimit, RunSpec, TrainingSpec, recipe
from pages.parts.session import resources
from pages.parts.train import risk_settings
from pages.parts.train.preview import Preview, duration_sentence, preview
from tests.pages.visit import visit

opened = partial(visit, "train", epochs_private_45="2", batch_private_16="16", cohort="tiny")


@pytest.fixture
def data(monkeypatch, tmp_path):
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    return tmp_path


def test_hovers_of_the_tradeoff_curve_round_its_limits_up():
    found = consequences(RiskLimit(caught=0.1, accused=0.01), sample_rate=0.1, steps=50, delta=1e-5)
    curve = next(line for line in risk_settings._figure(found).data if line.name == "this run")
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


SPECS = {
    "short": RunSpec(corpus=CORPUS_PRESETS["classroom"], training=TrainingSpec(epochs=2)),
    "private": RunSpec(corpus=CORPUS_PRESETS["classroom-12k"], privacy=PrivacySpec(target_epsilon=8.0)),
    "masked": RunSpec(corpus=CORPUS_PRESETS["classroom"], model=ModelSpec(kind="bert"), training=recipe("bert")),
    "hours": RunSpec(corpus=CORPUS_PRESETS["classroom-48k"], training=TrainingSpec(epochs=100)),
    "days": RunSpec(corpus=CorpusSpec(patients=100_000), training=TrainingSpec(epochs=1_000)),
}


@pytest.mark.parametrize("slow", [1.0, 3.0])
@pytest.mark.parametrize("name", SPECS)
def test_a_refusal_names_the_time_that_the_page_shows(name, slow, data, monkeypatch):
    """On a machine without earlier runs, and on one where every stage has taken three times as long."""
    spec = SPECS[name]
    ratios = {} if slow == 1.0 else {"training": slow, "audit: membership": slow}
    monkeypatch.setattr("core.jobs.times.expected.slowness", lambda *_: ratios)
    engine = Engine(resources.every_workspace())
    engine.limits = Limits(minutes=0)
    with pytest.raises(Refused) as refused:
        engine.submit(spec, User("anna"))
    shown = re.match(r"Takes about (.+?) on this machine", duration_sentence(spec))[1]
    assert str(refused.value).startswith(f"This job would take about {shown} (")
    seconds = whole(default_stages(spec, cohort=False, control=False))
    assert shown == duration_text(slow * seconds)


def test_a_time_that_rounds_to_that_of_training_is_not_said_twice(monkeypatch):
    """120 s of which 115 s are training are both “2 min”: as if the audit took no time."""
    times = {"whole": 120.0, "of_training": 115.0}
    monkeypatch.setattr("core.jobs.times.expected.expected_stages", lambda spec, workspace: {})
    for name in times:
        monkeypatch.setattr(f"core.jobs.times.costs.{name}", lambda stages, name=name: times[name])
    said = duration_sentence(SPECS[next(iter(SPECS))])
    assert said.startswith("Takes about 2 min on this machine, nearly all of it for training.")
    times["of_training"] = 60.0
    assert "Takes about 2 min on this machine: about 60 s of training, then" in duration_sentence(
        next(iter(SPECS.values()))
    )


def test_times_in_words():
    times = [2, 44, 89, 91, 5_300, 5_500, 72 * 3_600]
    assert [duration_text(one) for one in times] == ["5 s", "45 s", "90 s", "2 min", "88 min", "1.5 h", "3 days"]
