"""The Ledger page, driven without a browser: releases are explicit, cannot be undone, and count by unit."""

from __future__ import annotations

import math
import shutil
from functools import partial
from types import SimpleNamespace

import pytest

from core.common.formatting import promised_text
from core.runs.ledger.entries import Ledger, Vocabulary
from core.runs.run import PRIVACY_FILE
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS
from core.training.accounting.choosing import chosen_epsilon
from pages.parts.common.phi_text import literal
from pages.parts.ledger import views
from pages.parts.ledger.release_view import ENTRY, TRAINED
from pages.parts.pickers import linked_choice, run_picker
from tests.pages.visit import said, visit

opened = partial(visit, "ledger")
SMOKE = CORPUS_PRESETS["smoke"]


@pytest.fixture
def workspace(monkeypatch, smoke_workspace, smoke_specs, mark_secret, tmp_path):
    shutil.copytree(smoke_workspace, tmp_path / "data")
    mark_secret(tmp_path / "data", smoke_specs["dp"])
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path / "data"))
    return Workspace(tmp_path / "data", shared=())


@pytest.fixture
def second(workspace, smoke_specs) -> str:
    """The digest of a second cohort, which has a run, too."""
    other = smoke_specs["dp"].model_copy(update={"corpus": SMOKE.model_copy(update={"seed": 7})})
    shutil.copytree(workspace.root / "runs" / smoke_specs["dp"].run_id, workspace.root / "runs" / other.run_id)
    (workspace.root / "runs" / other.run_id / "spec.json").write_text(other.model_dump_json())
    return other.corpus.digest()


def test_a_link_to_a_cohort_that_is_gone_says_so_until_another_is_chosen(second):
    app = opened(ledger_cohort="own notes of 9 patients (0123456789abcdef)")
    (told,) = [one.value.replace("\\", "") for one in app.warning if "is not offered here" in one.value]
    assert told.startswith("The cohort in this link, “own notes of 9 patients (0123456789abcdef)”, is not offered")
    app.run()
    assert any("is not offered here" in one.value for one in app.warning)
    box = app.selectbox(key="ledger_cohort")
    box.set_value(next(one for one in (SMOKE.digest(), second) if one != box.value)).run()
    assert not app.exception and not any("is not offered here" in one.value for one in app.warning)
    assert not any("is not offered here" in one.value for one in opened().warning)


def test_a_chosen_cohort_is_in_the_address_and_back_brings_the_one_before(second, monkeypatch):
    app = opened()
    start = app.selectbox(key="ledger_cohort").value
    other = next(one for one in (SMOKE.digest(), second) if one != start)
    assert "ledger_cohort" not in app.query_params
    app.selectbox(key="ledger_cohort").set_value(other).run()
    assert app.query_params["ledger_cohort"] == other, "the page writes it: an entry in the browser's history"
    app.switch_page("pages/report.py").run()
    app.switch_page("pages/ledger.py").run()
    assert app.selectbox(key="ledger_cohort").value == other, "a link of the menu keeps the choice"
    app.query_params["ledger_cohort"] = other
    app.run()
    del app.query_params["ledger_cohort"]
    monkeypatch.setattr(linked_choice, "by_history", lambda: True)
    assert app.run().selectbox(key="ledger_cohort").value == start and not app.exception


def test_a_link_of_an_earlier_version_names_the_cohort_in_words(second):
    labels = opened().selectbox(key="ledger_cohort").options
    for digest in (SMOKE.digest(), second):
        app = opened(ledger_cohort=next(label for label in labels if digest in label))
        assert app.selectbox(key="ledger_cohort").value == digest and not app.warning


@pytest.mark.parametrize("before", [None, "tiny hospital"])
def test_back_to_an_address_without_that_cohort_ends_the_warning(workspace, monkeypatch, before):
    app = opened(ledger_cohort="own notes of 9 patients (0123456789abcdef)")
    assert any("is not offered here" in one.value for one in app.warning)
    app.query_params.pop("ledger_cohort", None)
    if before is not None:
        app.query_params["ledger_cohort"] = f"{before} ({SMOKE.digest()})"
        assert f"{before} ({SMOKE.digest()})" in app.selectbox(key="ledger_cohort").options
    monkeypatch.setattr(linked_choice, "by_history", lambda: before is None)
    app.run()
    assert not app.exception and not any("is not offered here" in one.value for one in app.warning)


def press(app, label: str):
    next(button for button in app.button if button.label == label).click().run()
    assert not app.exception
    return app


def preview(app, run_id: str, reason: str):
    """Fill the form and have it shown what the entry does."""
    app.selectbox(key="release_run").set_value(run_id)
    app.text_input(key="release_reason").set_value(reason)
    return press(app, "Show the effect on the totals")


def confirm(app, sure: bool = True):
    if sure:
        next(box for box in app.checkbox if box.label.startswith("I agree to these totals")).check()
    return press(app, "Record the release")


def shown(app) -> list[str]:
    """The totals before and after, a line each."""
    return next(one.value for one in app.markdown if one.value.startswith("- For ")).splitlines()


def totals(app) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def test_without_runs_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    assert any("no trained model" in info.value for info in opened().info)


def test_choosing_the_best_of_several_trainings_has_its_price(workspace, smoke_specs):
    run = workspace.run(smoke_specs["dp"].run_id)
    app = opened(trainings=20, shape="geometric")
    assert any("enter each of them in the ledger" in caption.value for caption in app.caption)
    assert not any("does not enter a choice" in caption.value for caption in app.caption)
    assert "runs on average" not in said(app)
    told = said(press(app, "Compute the cost of choosing"))
    together = run.privacy.model_copy(update={"steps": 20 * run.privacy.steps}).epsilon()
    assert f"One run: ε = {promised_text(run.privacy.epsilon())}." in told
    assert f"The best of 20 runs on average: ε = {promised_text(chosen_epsilon(run.privacy, 20, shape=1.0))}." in told
    assert f"All 20 released together: ε = {promised_text(together)}." in told


def test_a_release_is_shown_agreed_to_and_then_counts(workspace, smoke_specs):
    run_id, ledger = smoke_specs["dp"].run_id, Ledger.of(workspace, SMOKE)
    app = opened()
    assert any("No release recorded yet" in info.value for info in app.info)
    app = preview(app, run_id, "   ")
    assert any("A release needs a reason" in error.value for error in app.error) and ledger.releases() == []
    app = preview(app, run_id, "for the class")
    note, patient = shown(app)
    assert note.startswith("- For one note, by what is released per note: nothing released → **ε = ")
    assert patient.startswith("- For the patient with the most notes (")
    assert ledger.releases() == [] and not any(box.key == "release_run" for box in app.selectbox)
    app = confirm(app, sure=False)
    assert any("cannot be undone" in error.value for error in app.error) and ledger.releases() == []
    app = press(app, "Back")
    assert app.text_input(key="release_reason").value == "for the class", "a refusal costs nobody their words"
    app = confirm(preview(app, run_id, "for the class"))
    assert [(one.name, one.reason) for one in ledger.releases()] == [(run_id, "for the class")]
    assert app.text_input(key="release_reason").value == ""
    app.number_input(key="ledger_delta").set_value(1e-3).run()
    assert totals(app)["For one note, all releases together"] == "ε = 8"
    assert totals(app)["For one patient, all releases together"] == "see below"
    assert app.dataframe[0].value["reason"].tolist() == ["for the class"]
    assert app.dataframe[0].value["seed"].tolist() == ["–"], "secret noise has none, and an empty cell reads “None”"
    assert run_id not in app.selectbox(key="release_run").options, "it cannot be released twice"
    assert "For the patient with the most notes" in said(app)
    assert app.get("plotly_chart")


def test_the_best_of_several_trainings_is_confirmed_and_counted(workspace, smoke_specs):
    run, ledger = workspace.run(smoke_specs["dp"].run_id), Ledger.of(workspace, SMOKE)
    app = opened()
    app.text_input(key="release_score").set_value("loss on public notes")
    app = preview(app, run.id, "for the class")
    assert any("is not ticked" in error.value for error in app.error), "a choice is never left out silently"
    app.checkbox(key="release_chosen").check()
    expected = app.number_input(key="release_trainings")
    assert expected.min is None and expected.max is None, "the browser would keep a number back, and enter this one"
    expected.set_value(0.5)
    app = press(app, "Show the effect on the totals")
    assert any("1 to 1,000,000 expected runs, not 0.5" in error.value for error in app.error)
    app.number_input(key="release_trainings").set_value(20)
    app.selectbox(key="release_shape").set_value("geometric")
    app = press(app, "Show the effect on the totals")
    assert any(one.value.endswith("(η = 1), chosen by loss on public notes") for one in app.text)
    assert "used only public notes" in said(app) and "nothing else from these runs is released" in said(app)
    app = press(app, "Back")
    assert app.checkbox(key="release_chosen").value and app.number_input(key="release_trainings").value == 20
    assert app.selectbox(key="release_shape").value == "geometric"
    app = confirm(press(app, "Show the effect on the totals"))
    assert any("box about the choice" in error.value for error in app.error) and ledger.releases() == []
    next(box for box in app.checkbox if box.label == "All of this is true.").check()
    app = confirm(app)
    (entry,) = ledger.releases()
    assert (entry.choice.trainings, entry.choice.shape, entry.choice.score) == (20, 1.0, "loss on public notes")
    expected = chosen_epsilon(run.privacy, 20, shape=1.0, delta=1e-3)
    app.number_input(key="ledger_delta").set_value(1e-3).run()
    assert totals(app)["For one note, all releases together"] == f"ε = {promised_text(expected)}"
    assert any("Rényi divergences (RDP), because the run was chosen" in one.value for one in app.caption)
    assert app.dataframe[0].value["chosen"].tolist() == [entry.choice.text()]
    app.number_input(key="budget").set_value(100.0).run()
    assert "like the last, not chosen among several, with" in said(press(app, "How much ε can one more run spend?"))


def test_a_choice_that_the_theorem_does_not_cover_is_refused_in_a_sentence(workspace, smoke_specs):
    app = opened()
    app.checkbox(key="release_chosen").check()
    app.text_input(key="release_score").set_value("loss on public notes")
    app = preview(app, smoke_specs["plain"].run_id, "for the class")
    assert any("trained without privacy" in error.value for error in app.error)
    assert Ledger.of(workspace, SMOKE).releases() == []


def test_a_release_without_privacy_says_before_it_is_entered_that_the_totals_become_infinite(workspace, smoke_specs):
    app = preview(opened(), smoke_specs["plain"].run_id, "by mistake")
    assert len(shown(app)) == 2 and all(line.endswith("**ε = ∞ (nothing is promised)**") for line in shown(app))
    assert any("was trained without privacy" in warning.value for warning in app.warning)
    assert any("exceeds the budget of 10" in warning.value for warning in app.warning)
    assert app.number_input(key="budget").value == 10.0, "the box is there before the first release"
    assert Ledger.of(workspace, SMOKE).releases() == []
    assert set(totals(confirm(app)).values()) == {"ε = ∞"}


def test_a_ledger_that_changed_meanwhile_is_shown_and_asked_again(workspace, smoke_specs):
    ledger = Ledger.of(workspace, SMOKE)
    app = preview(opened(), smoke_specs["dp"].run_id, "for the class")
    first = shown(app)
    words = Vocabulary(epsilon=0.5, delta=1e-9, words=2, unit="note")
    ledger.enter(ledger.draft_vocabulary("words", words, "by somebody else"))
    app = confirm(app)
    assert [one.name for one in ledger.releases()] == ["words"], "what was agreed to is not what would happen"
    assert any("a new entry since" in warning.value for warning in app.warning)
    assert shown(app) != first and "per note: ε = 1 at δ = 10⁻⁵ → **ε = " in shown(app)[0]
    assert not next(box for box in app.checkbox if box.label.startswith("I agree")).value, "it is asked again"
    app = confirm(app)
    assert [one.name for one in ledger.releases()] == ["words", smoke_specs["dp"].run_id]


def test_a_model_that_was_trained_again_meanwhile_is_shown_and_asked_again(workspace, smoke_specs):
    """In two browsers the same draft: each model that is given away is confirmed and recorded as its own release."""
    run, ledger = workspace.run(smoke_specs["dp"].run_id), Ledger.of(workspace, SMOKE)

    def train(training: str) -> None:
        text = run.privacy.model_copy(update={"training": training}).to_json()
        (run.folder / PRIVACY_FILE).write_text(text, encoding="utf-8")

    train("a" * 16)
    first, second = (preview(opened(), run.id, "for the class") for _ in range(2))
    train("b" * 16)
    first = confirm(first)
    assert ledger.releases() == [] and any(TRAINED in warning.value for warning in first.warning)
    confirm(first)
    train("c" * 16)
    second = confirm(second)
    assert len(ledger.releases()) == 1
    assert any(TRAINED in one.value and ENTRY in one.value for one in second.warning)
    confirm(second)
    assert [one.mechanism.training for one in ledger.releases()] == ["b" * 16, "c" * 16]


def test_a_private_run_with_a_public_seed_is_refused_in_a_sentence(smoke_workspace, smoke_specs, tmp_path):
    """The page does not offer it; a ledger that is asked all the same says why."""
    shutil.copytree(smoke_workspace, tmp_path / "public")
    public = Workspace(tmp_path / "public", shared=())
    with pytest.raises(ValueError, match="Its ε is shown, not promised"):
        Ledger.of(public, SMOKE).draft_run(public.run(smoke_specs["dp"].run_id), "for the class")
    assert not (tmp_path / "public" / "ledger").exists()


def test_releases_per_note_and_per_patient_are_told_together(workspace):
    ledger = Ledger.of(workspace, SMOKE)
    for unit in ("note", "patient"):
        words = Vocabulary(epsilon=0.5, delta=1e-9, words=2, unit=unit)
        ledger.enter(ledger.draft_vocabulary(f"{unit}s", words, "a tokenizer"))
    app = opened()
    assert totals(app) == {f"For one {unit}, releases with ε per {unit}": "ε = 1" for unit in ("note", "patient")}
    assert "For one note, everything together promises ε = 3 at δ = 4.8·10⁻⁵." in said(app)
    assert "For the patient with the most notes" in said(app)
    told = "Without the releases with ε per patient, which are added further down: 9 below the budget of 10"
    assert any(told in one.value for one in app.caption)
    assert not any(button.label == "How much ε can one more run spend?" for button in app.button), "no run to be like"


def test_what_fits_into_a_budget_counts_the_vocabularies(workspace, smoke_specs):
    ledger = Ledger.of(workspace, SMOKE)
    ledger.enter(ledger.draft_run(workspace.run(smoke_specs["dp"].run_id), "for the class"))
    words = Vocabulary(epsilon=2.0, delta=1e-10, words=3, unit="note")
    ledger.enter(ledger.draft_vocabulary("words", words, "a tokenizer"))
    app = opened(ledger_delta="0.001", budget="13")  # more than the run's 8, less than 8 and 6
    next(button for button in app.button if button.label == "How much ε can one more run spend?").click().run()
    assert not app.exception and "For one note: no further run fits the budget." in said(app)


def test_a_released_cohort_without_a_run_is_shown(workspace, smoke_specs):
    app = preview(opened(), smoke_specs["dp"].run_id, "the trial")
    before = totals(confirm(app))
    shutil.rmtree(workspace.root / "runs")
    app = opened(ledger_cohort=SMOKE.digest())
    assert not app.exception and totals(app) == before
    assert "There is no run of this cohort here." in said(app)
    next((workspace.root / "ledger").glob("*/0001.json")).write_text("{}")
    (error,) = opened().error
    assert "is damaged" in error.value and literal(str(workspace.root), 600) in error.value, "a path is no Markdown"


def test_a_damaged_ledger_gives_no_total(workspace):
    ledger = Ledger.of(workspace, SMOKE)
    words = Vocabulary(epsilon=0.1, delta=1e-12, words=4, unit="patient")
    ledger.enter(ledger.draft_vocabulary("words", words, "a tokenizer"))
    app = opened()
    assert totals(app)["For one patient, all releases together"] == "ε = 0.4"
    (ledger.folder / "0001.json").write_text("{}")
    app = opened()
    *_, error = app.error  # the list of released cohorts says it first
    assert not app.metric and error.value.endswith("Until then no total can be computed.")
    assert literal(str(ledger.folder), 600) in error.value


def test_the_total_of_the_private_releases_is_rounded_up(monkeypatch):
    captions: list[str] = []
    monkeypatch.setattr(views.st, "metric", lambda *shown: None)
    monkeypatch.setattr(views.st, "caption", captions.append)
    endless = SimpleNamespace(releases=2, reasons=("x",), epsilon=math.inf, if_independent=10.00049)
    views._total({"note": endless, "patient": endless}, "note", 10.0)
    assert "would total 10.1." in captions[0]


def test_a_run_whose_noise_anybody_can_make_again_is_not_offered(monkeypatch, smoke_workspace, smoke_specs):
    """The ledger would refuse it after the form is filled in. One without privacy can be recorded."""
    monkeypatch.setenv("PHILAB_DATA", str(smoke_workspace))
    app = opened()
    offered = app.selectbox(key="release_run").options
    assert len(offered) >= 1 and not any("ε = 8" in name for name in offered)
    app.selectbox(key="release_run").set_value(smoke_specs["plain"].run_id)
    told = next(one.value for one in app.caption if "Private runs that must not be released: 1." in one.value)
    assert "If one was released, these totals leave it out: take them as infinite" in told


def test_the_form_names_runs_as_every_box_does(monkeypatch, smoke_workspace):
    """A control without noise is named after its private runs, also where those cannot be released."""
    asked, usual = [], run_picker.labels
    monkeypatch.setattr(run_picker, "labels", lambda runs: asked.extend(runs) or usual(runs))
    monkeypatch.setenv("PHILAB_DATA", str(smoke_workspace))
    assert opened().selectbox(key="release_run").options
    assert any(run.spec.privacy.private for run in asked)


def test_in_a_class_only_the_instructor_records_a_release(workspace, smoke_specs, monkeypatch):
    """A student may look at the effect; the entry would stay for ever, for everybody."""
    ledger = Ledger.of(workspace, SMOKE)
    app = preview(opened(), smoke_specs["dp"].run_id, "for the class")
    monkeypatch.setenv("PHILAB_INSTRUCTOR_KEY", "the-key-of-this-class")  # as a forged click: the button was enabled
    app = confirm(app)
    assert ledger.releases() == []
    (record,) = (button for button in app.button if button.label == "Record the release")
    assert record.disabled and "only the instructor" in record.help
    app.session_state["instructor_key"] = "the-key-of-this-class"
    app = confirm(app.run())
    assert [one.reason for one in ledger.releases()] == ["for the class"]


def test_the_cohort_of_the_newest_own_run_comes_first_and_shipped_ones_in_a_fixed_order(
    smoke_workspace, monkeypatch, tmp_path
):
    """Time stamps of shipped runs say when they were made for the repository, which tells a reader nothing."""
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path / "empty"))
    monkeypatch.delenv("PHILAB_SHIPPED", raising=False)
    first, second = opened().selectbox(key="ledger_cohort").options[:2]
    assert first.startswith("hospital of about 12,000 notes") and second.startswith("classroom hospital")
    monkeypatch.setenv("PHILAB_DATA", str(smoke_workspace))
    first, second = opened().selectbox(key="ledger_cohort").options[:2]
    assert first.startswith("tiny hospital") and second.startswith("hospital of about 12,000 notes")


@pytest.mark.parametrize(
    ("key", "typed", "told"),
    [
        ("ledger_delta", 0.7, "“δ” takes a number from 1e-12 to 0.5, not 0.7."),
        ("budget", 0.05, "“Budget” takes a number from 0.1 to 10,000, not 0.05."),
        ("trainings", 0.5, "“Expected runs” takes a number from 1 to 10,000, not 0.5."),
    ],
)
def test_no_total_stands_beside_a_number_that_it_is_not_about(workspace, key, typed, told):
    app = opened()
    box = app.number_input(key=key)
    assert box.min is None and box.max is None, "the browser would keep the number back"
    app = box.set_value(typed).run()
    assert [error.value for error in app.error] == [told]
    if key != "trainings":
        assert "release_run" not in {one.key for one in app.selectbox}, "nothing is entered at another limit"
