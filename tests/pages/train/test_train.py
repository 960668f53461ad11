"""Train, driven without a browser; the engine is replaced where a real worker would only cost time."""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from core.jobs.engine import Engine, EngineFailed, Job
from core.pipeline.quick_audit import ATTACKS
from core.runs.events import Status, append_event, write_status
from core.runs.facts import promise_sentence
from core.runs.integrity.disk import DiskFull
from core.runs.lock import held
from core.runs.progress import Progress, progress_of
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, PrivacySpec, RiskLimit, RunSpec, VocabularySpec, recipe, recipe_of
from core.training.accounting.gaussian import epsilon
from core.training.accounting.risk import achieved
from core.training.plan import plan
from pages.parts.common.phi_text import literal
from pages.parts.jobs.sentences import stage_in_words, title
from pages.parts.train import training_settings
from tests.pages.visit import said, visit

opened = partial(visit, "train")

TINY = {"cohort": "tiny", "batch_private_16": "16", "epochs_private_45": "2"}


@pytest.fixture
def data(monkeypatch, tmp_path):
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def asked(monkeypatch):
    """What was submitted; nothing is trained."""
    specs: list[RunSpec] = []

    def submit(self, spec, user=None):
        specs.append(spec)
        return Job(spec.run_id, spec, "queued", "", 0.0, 0)

    monkeypatch.setattr(Engine, "submit", submit)
    return specs


def figures(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def test_the_cost_is_known_before_training(data):
    app = opened(epsilon="2", **TINY)
    shown = figures(app)
    notes = len(Workspace(data, shared=()).corpus(CORPUS_PRESETS["smoke"]).training_notes())
    assert shown["steps"] == f"{-(-2 * notes // 16)}"
    assert shown["notes in a step"] == f"{1600 / notes:.0f}\u00a0%"
    spent = epsilon(
        noise_multiplier=float(shown["noise σ"]), sample_rate=16 / notes, steps=int(shown["steps"]), delta=1e-5
    )
    assert spent == pytest.approx(2.0, rel=0.02), "σ as shown, in three digits, gives the ε that was asked for"
    assert len(app.get("plotly_chart")) == 1, "the expected ε is drawn"
    assert any("ε = 2 per note at δ = 10⁻⁵, computed by PRV" in caption.value for caption in app.caption)
    assert any("patient with the most training notes" in caption.value for caption in app.caption)


def test_every_epsilon_of_the_slider_has_a_meaning(data):
    limits = {"0.5": "1.65", "1": "2.72", "2": "7.39", "3": "20.1", "5": "149", "8": "2,981", "10": "22,027"}
    told = {one: f"at most {limit}-fold" for one, limit in limits.items()} | {"inf": "No privacy"}  # e^ε, rounded up
    nothing = "This ε promises nothing"
    for chosen in training_settings.EPSILONS:
        privacy = PrivacySpec(target_epsilon=None if chosen == math.inf else chosen)
        assert told.get(f"{chosen:g}", nothing) in training_settings._meaning(RunSpec(corpus={}, privacy=privacy))
    app = opened(epsilon="1000", **TINY)
    assert not app.exception and any(caption.value.startswith(nothing) for caption in app.caption)


def test_a_run_says_whether_its_epsilon_is_promised_and_asks_for_secret_noise(data, asked):
    app = opened(epsilon="2", **TINY)
    told = [caption.value for caption in app.caption if "Reproducible: ε is shown, not promised." in caption.value]
    assert len(told) == 2, "at the switch and beside the ε that is expected"
    app.toggle(key="secret_noise").set_value(True).run()
    assert not any("not promised" in caption.value for caption in app.caption)
    assert any("destroyed after training: ε is promised" in caption.value for caption in app.caption)
    app.button(key="train").click().run()
    assert not app.exception and asked[0].secret_noise and asked[0].privacy.noise_source == "secret"


@pytest.mark.parametrize("unit", ["note", "patient"])
def test_the_noise_follows_from_what_an_attacker_may_achieve(data, asked, unit):
    app = opened(privacy="choose the risk", caught="10", **{"cohort": "tiny"})
    assert not app.error, [error.value for error in app.error]
    app.radio(key="unit").set_value(unit).run()
    assert "accuses 1 of 100" in said(app) and f"at most 10 of 100 {unit}s" in said(app)
    assert "secret noise only" in said(app)
    assert any("μ = " in one.value and "less noise" in one.value for one in app.caption)
    (chart,) = [json.loads(one.proto.spec) for one in app.get("plotly_chart")]
    lines = {line["name"]: line for line in chart["data"]}
    assert set(lines) == {"what (ε, δ) alone allows", "this run", "random guessing", "the limit"}
    assert (lines["the limit"]["x"], lines["the limit"]["y"]) == ([1.0], [10.0])
    app.button(key="train").click().run()
    assert not app.exception
    (spec,) = asked
    assert spec.privacy.risk_limit == RiskLimit(caught=0.1, accused=0.01) and spec.privacy.unit == unit
    notes = Workspace(data, shared=()).corpus(CORPUS_PRESETS["smoke"]).training_notes(spec.note_cap)
    planned = plan(spec.privacy, spec.training, notes=len(notes), patients=notes["patient_id"].nunique()).mechanism
    assert 0.0995 < achieved(spec.privacy.risk_limit, [planned]) <= 0.1
    assert figures(app)["noise σ"] == f"{planned.noise_multiplier:.3g}"
    assert "(at most 10 % caught at 1 % accused by mistake)" in title(spec), "in the queue"
    card = promise_sentence(spec, planned)
    assert "chosen by a limit on the attacker" in card and spec.privacy.risk_limit.sentence(unit) in card
    weaker = app.select_slider(key="caught").set_value("20").run()
    assert float(figures(weaker)["noise σ"]) < planned.noise_multiplier


def test_a_delta_that_alone_exceeds_the_limit_is_named(data):
    app = opened(privacy="choose the risk", caught="1.5", delta="0.01", cohort="tiny")
    told = "no ε holds this limit, since δ = 0.01 alone exceeds it"
    assert not app.exception and any(told in one.value for one in app.caption)


def test_right_guesses_can_be_limited_and_more_epochs_need_more_noise(data):
    app = opened(privacy="choose the risk", limit="right guesses", right_guesses="70", cohort="tiny")
    assert "right" not in app.session_state, "a link to Playground names a run so: leaving Train would drop it"
    assert "at most 70 are right (50 by tossing a coin)" in said(app) and len(app.get("plotly_chart")) == 1
    before = float(figures(app)["noise σ"])
    (epochs,) = [knob for knob in app.number_input if knob.label == "Epochs"]
    epochs.set_value(3 * epochs.value).run()
    assert float(figures(app)["noise σ"]) > before


def test_a_limit_below_blind_guessing_is_a_sentence(data, asked):
    app = opened(privacy="choose the risk", cohort="tiny")
    app.number_input(key="accused").set_value(7.0).run()
    assert not app.exception and any("Random guessing" in error.value for error in app.error) and not asked


def test_training_submits_what_the_knobs_say(data, asked):
    app = opened(epsilon="2", **TINY)
    app.number_input(key="delta").set_value(1e-3).run()
    app.radio(key="unit").set_value("patient").run()
    app.button(key="train").click().run()
    assert not app.exception
    (spec,) = asked
    expected = PrivacySpec(target_epsilon=2.0, delta=1e-3, unit="patient")
    training = recipe_of("gpt2", expected, CORPUS_PRESETS["smoke"]).model_copy(update={"batch_size": 16, "epochs": 2})
    assert (spec.corpus, spec.privacy, spec.training) == (CORPUS_PRESETS["smoke"], expected, training)


def test_a_cohort_smaller_than_the_recipes_batch_can_be_trained_as_it_opens(data, asked):
    app = opened(cohort="tiny", epsilon="2")
    assert not app.error
    app.button(key="train").click().run()
    notes = len(Workspace(data, shared=()).corpus(CORPUS_PRESETS["smoke"]).training_notes())
    assert asked[0].training.batch_size == notes // 4


def test_no_privacy_has_no_sigma_and_says_so(data, asked):
    app = opened(cohort="tiny", epsilon="∞")
    assert set(figures(app)) == {"steps"}
    assert any("No privacy" in caption.value for caption in app.caption)
    app.button(key="train").click().run()
    assert not asked[0].privacy.private


def test_another_model_or_hospital_starts_at_its_own_recipe(data, asked):
    """The knobs nobody touched must not keep the default of what was chosen before."""
    app = opened(cohort="tiny", epsilon="∞")
    knobs = {knob.label: knob for knob in app.number_input}
    assert knobs["Epochs"].value == recipe("gpt2").epochs
    app.segmented_control(key="kind").set_value("distilbert").run()
    knobs = {knob.label: knob for knob in app.number_input}
    assert knobs["Epochs"].value == recipe("distilbert").epochs != recipe("gpt2").epochs
    app.select_slider(key="epsilon").set_value("8").run()
    sizes = {}
    for patients in (12, 24):
        app.session_state["cohort"] = "custom"
        app.session_state["patients"] = patients
        app.run()
        assert not app.exception
        (sizes[patients],) = [knob.value for knob in app.number_input if knob.label == "Batch size"]
    assert sizes[24] > sizes[12], "a quarter of the notes each"
    app.button(key="train").click().run()
    (spec,) = asked
    assert (spec.training.epochs, spec.training.batch_size) == (
        recipe_of("distilbert", spec.privacy, spec.corpus).epochs,
        sizes[24],
    )


def test_a_class_starts_with_the_short_recipe_and_may_take_the_full_one(data, asked):
    app = opened(cohort="classroom")
    corpus, privacy = CORPUS_PRESETS["classroom"], PrivacySpec(target_epsilon=8.0)
    for length, short in (("short", True), ("full", False)):
        app.segmented_control(key="training_time").set_value(length).run()
        app.button(key="train").click().run()
        assert asked[-1].training == recipe_of("gpt2", privacy, corpus, short=short)
    assert asked[0].training.epochs < asked[1].training.epochs
    app.select_slider(key="epsilon").set_value("∞").run()
    assert not any(knob.key == "training_time" for knob in app.segmented_control), "8 epochs are short already"


def whole_key(app: AppTest, beginning: str) -> str:
    """The key of the number box; those of the recipe end with its usual value."""
    return next(box.key for box in app.number_input if box.key.startswith(beginning))


def test_a_hospital_that_cannot_be_built_is_a_sentence(data):
    app = opened(cohort="custom", patients="4", others="0", canaries="5000")
    assert any("5,000 canaries are too many to keep apart" in error.value for error in app.error)
    assert "train" not in {button.key for button in app.button}


@pytest.mark.parametrize(
    "query",
    [
        {"epsilon": "<b>x</b>\x07👩"},
        {"privacy": "choose σ (expert)", "sigma": "nan"},
        {"delta": "1e400", "rate_private": "much"},
        {"training_seed": "9" * 30, "batch_private": "many"},
        {"model": "gpt5", "unit": "hospital", "accountant": "mine"},
    ],
    ids=["ε", "σ", "δ", "seed", "choices"],
)
def test_a_link_that_says_nonsense_opens_all_the_same(data, query):
    usual = opened(**TINY)
    query = {whole_key(usual, name) if "_private" in name else name: value for name, value in query.items()}
    app = opened(**TINY | query)
    assert not app.error and app.button(key="train"), "what cannot be read is passed over"


@pytest.mark.parametrize("sigma", [0.0, -1.0])
def test_a_sigma_that_is_no_noise_is_refused(data, asked, sigma):
    app = opened(privacy="choose σ (expert)", **TINY)
    app.number_input(key="sigma").set_value(sigma).run()
    assert any("σ must be a number above 0" in error.value for error in app.error)


def test_warnings_for_a_large_delta_gdp_and_next_to_no_noise(data):
    app = opened(privacy="choose σ (expert)", **TINY)
    app.number_input(key="delta").set_value(0.1).run()
    assert any("not below 1/n" in warning.value for warning in app.warning)
    app.selectbox(key="accountant").set_value("gdp").run()
    assert any("under-reports" in warning.value for warning in app.warning)
    app.number_input(key="sigma").set_value(1e-20).run()
    assert not app.exception
    assert any("guarantees nothing" in warning.value for warning in app.warning)


@pytest.mark.parametrize("refusal", [EngineFailed("The worker is gone."), DiskFull("The disk is full: free some.")])
def test_a_refusal_of_the_engine_is_a_sentence(data, monkeypatch, refusal):
    def refuse(self, spec, user=None):
        raise refusal

    monkeypatch.setattr(Engine, "submit", refuse)
    app = opened(epsilon="2", **TINY)
    app.button(key="train").click().run()
    assert not app.exception
    knobs = next(column for column in app.columns if [header.value for header in column.header] == ["Settings"])
    assert any(str(refusal) in error.value for error in knobs.error), "it is seen where the button is"


def spec_of(**privacy) -> RunSpec:
    asked = PrivacySpec(**privacy)
    corpus = CORPUS_PRESETS["smoke"]
    training = recipe_of("gpt2", asked, corpus).model_copy(update={"batch_size": 16, "epochs": 2})
    return RunSpec(corpus=corpus, privacy=asked, training=training)


def test_every_browser_sees_a_running_job_live(data):
    spec = spec_of(target_epsilon=2.0)
    workspace = Workspace(data, shared=())
    work = workspace.begin(spec)
    write_status(work, Status(state="running", submitted=1.0))
    append_event(work, {"event": "stage", "stage": "training", "message": "Training"})
    for step in (1, 2, 3):
        place = {"step": step, "steps": 9, "epoch": 1, "epochs": 2}
        figures = {"loss": 4.0, "epsilon": 0.5 * step, "tokens": 1, "seconds": 1.0, "eta_seconds": 30.0}
        append_event(work, {"event": "step", **place, **figures})
    with held(workspace.lock_file(spec.run_id), should_stop=lambda: False):  # as its worker would
        for app in (opened(), opened()):
            assert any(literal(title(spec)) in element.value for element in app.markdown)
            text, left = app.progress[0].text.split(" · about ")
            assert text == "Training: step 3 of 9, epoch 1 of 2 · loss 4.00 · ε 1.5"
            assert re.fullmatch(r"\d+ (s|min) left.*", left), "of all stages, not of the training alone"
            assert app.button(key=f"cancel-watch-{spec.run_id}")
            assert len(app.get("plotly_chart")) == 2, "the expected curve and the live strips"
        own = opened(epsilon="2", **TINY)
        assert any("waiting or running" in info.value for info in own.info), "the same run is not asked for twice"
        app.button(key=f"cancel-queue-{spec.run_id}").click().run()
        assert not app.exception
        assert (work / "cancel").exists()


def test_a_run_that_exists_is_not_trained_again(data, smoke_workspace, smoke_specs):
    shutil.copytree(smoke_workspace, data, dirs_exist_ok=True)
    app = opened()
    finished = [element.value for element in app.markdown if element.value == literal(title(smoke_specs["dp"]))]
    assert len(finished) == 1, "finished runs are listed"
    assert {"Open in Playground", "Open in ε trade-off"} <= {link.proto.label for link in app.get("page_link")}
    made = Workspace(data, shared=()).run(smoke_specs["plain"].run_id).spec
    folder = data / "runs" / made.run_id
    asked_now = RunSpec(corpus=made.corpus, training=recipe("gpt2"))
    folder.rename(data / "runs" / asked_now.run_id)
    (data / "runs" / asked_now.run_id / "spec.json").write_text(asked_now.model_dump_json())
    app = opened(cohort="tiny", epsilon="∞")
    assert any("Already trained" in success.value for success in app.success)
    assert "train" not in {button.key for button in app.button}


def test_a_job_says_what_it_does_in_words():
    waiting = Job("gpt2-000000000000", spec_of(target_epsilon=1.0), "queued", "", 0.0, 2)
    assert stage_in_words(waiting, Progress()) == "Waiting: 2 jobs of all users ahead"
    events = [{"event": "stage", "stage": "audit: membership", "message": ""}]
    events.append({"event": "progress", "done": 3, "total": 12, "eta_seconds": 200})
    running = Job("gpt2-000000000000", spec_of(target_epsilon=1.0), "running", "", 0.0, 0)
    progress = progress_of(events)
    assert stage_in_words(running, progress) == "Audit, scoring notes: 3 of 12 · 3 min left in this stage"
    progress.ends, progress.slower = time.time() + 600, "base control/audit: membership"
    assert stage_in_words(running, progress) == (
        "Audit, scoring notes: 3 of 12 · about 10 min left (longer than expected: control, scoring notes)"
    )
    progress.ends = time.time() - 5
    assert " · nearly done" in stage_in_words(running, progress)
    control = {"event": "stage", "stage": "base control", "message": f"Control: {ATTACKS[0].message}"}
    assert stage_in_words(running, progress_of([control])) == "Control, prompting the model …"


def test_a_loss_is_told_before_the_first_step_is_over():
    running = Job("gpt2-000000000000", spec_of(target_epsilon=1.0), "running", "", 0.0, 0)
    events = [{"event": "stage", "stage": "training", "message": ""}]
    assert stage_in_words(running, progress_of(events)) == "Training …"
    place = {"steps": 46, "epoch": 1, "epochs": 4}
    events.append({"event": "progress_in_step", "step": 1, "done": 128, "total": 251, "loss": 4.712} | place)
    assert stage_in_words(running, progress_of(events)) == (
        "Training: step 1 of 46 (128 of 251 texts), epoch 1 of 4 · loss 4.71 so far"
    )
    figures = {"loss": 4.8, "epsilon": 0.52, "tokens": 9, "seconds": 3.0, "eta_seconds": 20.0}
    events.append({"event": "step", "step": 1} | place | figures)
    assert stage_in_words(running, progress_of(events)) == (
        "Training: step 1 of 46, epoch 1 of 4 · loss 4.80 · ε 0.52 · 20 s left in this stage"
    )
    events.append({"event": "progress_in_step", "step": 2, "done": 9, "total": 260, "loss": None} | place)
    assert stage_in_words(running, progress_of(events)) == (
        "Training: step 2 of 46 (9 of 260 texts), epoch 1 of 4 · loss 4.80 · ε 0.52 · 20 s left in this stage"
    )


def test_words_of_its_own_are_asked_for_and_their_cost_is_told(data, asked):
    app = opened(kind="DistilBERT", epsilon="2", own_words="true", word_epsilon="1", words_counted_note="4", **TINY)
    assert not app.exception and not app.error
    told = [caption.value for caption in app.caption]
    assert any("the vocabulary spends ε = 1 at δ = 10⁻⁶ and training 2 at δ = 10⁻⁵" in line for line in told)
    spent = float(figures(app)["ε per note"])
    assert 2.0 < spent < 3.0, "together, by PRV, they cost less than their sum"
    assert any(f"ε = {spent:.3g} per note at δ = 1.1·10⁻⁵" in line for line in told)
    app.button(key="train").click().run()
    (spec,) = asked
    assert spec.vocabulary == VocabularySpec(epsilon=1.0, words=4)
    assert title(spec).count("words from the notes (ε = 1)") == 1


def test_words_whose_noise_cannot_be_computed_are_refused_before_training(data, asked):
    app = opened(kind="DistilBERT", epsilon="2", own_words="true", word_epsilon="1000000", **TINY)
    app.button(key="train").click().run()
    assert not app.exception and asked == []
    assert any("ε = 1e+06 at δ = 1e-06 for the words is so large" in error.value for error in app.error)


def test_without_privacy_words_have_no_noise_and_gpt2_gets_none(data, asked):
    app = opened(kind="DistilBERT", epsilon="∞", own_words="true", cohort="tiny")
    assert any("may contain patients' names" in caption.value for caption in app.caption)
    app.button(key="train").click().run()
    (spec,) = asked
    assert spec.vocabulary == VocabularySpec()
    assert not any(one.key == "own_words" for one in opened(kind="GPT-2", cohort="tiny").toggle)
