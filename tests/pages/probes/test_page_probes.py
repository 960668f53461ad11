"""The Probes page, driven without a browser, over a run that the real pipeline made and the real audit probed."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.attacks.probes import generated, table
from core.attacks.registry import REGISTRY
from core.corpus.icd_codes import condition_words
from core.corpus.synthetic.hospital import build
from core.evaluation.probes.cards import cards
from core.evaluation.probes.comparison import compared
from core.evaluation.probes.tables import FIGURES
from core.models import shipped_bases
from core.runs.events import Status
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS
from pages.parts.jobs.battery import LABEL
from pages.parts.probes import try_it, variants
from pages.parts.probes.charts import PICTURES, picture
from pages.parts.probes.methods import HOW
from pages.parts.session import owner
from tests.pages.uploads.own_run import OWNER, bring
from tests.pages.visit import WAIT, said, visit

opened = partial(visit, "probes")


@pytest.fixture(scope="module")
def probed(audited_with):
    """A data folder whose run without privacy was probed, and one of whose texts counts as a name: it writes none."""

    def names_written(wholes, typed, detector=None):
        return [generated.Named(0, typed[0], len(wholes[0]), "jane doe")]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generated, "names_written", names_written)
        return audited_with(*HOW)


@pytest.fixture
def data(monkeypatch, probed):
    monkeypatch.setenv("PHILAB_DATA", str(probed))
    return probed


def figures_of(data: Path, specs):
    return Workspace(data, shared=()).audit(specs["plain"].run_id).table(FIGURES)


def test_without_runs_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    assert any("Train one to probe it" in info.value for info in opened().info)


def test_a_run_that_was_not_probed_offers_the_battery(data, smoke_specs):
    app = opened(run=smoke_specs["dp"].run_id)
    assert any("not been run on this model" in info.value for info in app.info) and not app.get("plotly_chart")
    assert any(button.label == LABEL for button in app.button)


def test_after_an_audit_that_was_cancelled_it_does_not_say_that_no_probe_was_run(
    monkeypatch, probed, smoke_specs, tmp_path
):
    """Figures are computed at the end of an audit, and the button says how many attacks were run."""
    root = shutil.copytree(probed, tmp_path / "data")
    run_id = smoke_specs["plain"].run_id
    for file in (root / "audits" / run_id).glob(f"tables/{FIGURES}/*.parquet"):
        file.unlink()
    monkeypatch.setenv("PHILAB_DATA", str(root))
    told = [info.value for info in opened(run=run_id).info]
    assert any("figures come at the end" in one for one in told)
    assert not any("not been run" in one for one in told)


def test_every_probe_has_its_words_its_picture_and_its_method():
    probes = [name for name, attack in REGISTRY.items() if attack.tables == (table.PROBES,)]
    assert set(HOW) == set(PICTURES) == set(probes)


def test_a_card_asks_first_and_then_tells_beside_the_guess(data, smoke_specs):
    first = cards(figures_of(data, smoke_specs))[0]
    app = opened(run=smoke_specs["plain"].run_id, guess="1")
    assert first.conclusion not in said(app) and not app.get("plotly_chart")
    next(button for button in app.button if button.label == "Yes").click().run()
    assert not app.exception
    assert f"You guessed “Yes”. {first.conclusion}" in said(app)
    assert first.answer in said(app) and first.controls in said(app)
    assert len(app.get("plotly_chart")) == 1 and len(app.get("download_button")) == 1


def test_all_cards_at_once(data, smoke_specs):
    made = cards(figures_of(data, smoke_specs))
    assert len(made) >= 6
    app = opened(run=smoke_specs["plain"].run_id)
    for card in made:
        assert card.conclusion in said(app) and card.answer in said(app) and card.controls in said(app)
    assert len(app.get("plotly_chart")) == len(app.get("download_button")) == len(made)
    assert any(
        "2.5\u00a0% of cases" in caption.value and "one chance in six" in caption.value for caption in app.caption
    )
    asked = next(frame.value for frame in app.dataframe if "patient has it" in frame.value.columns)
    assert all(re.fullmatch(r"\d\.\d\d|\d\d\.\d|[\d,]+( million)?", text) for text in asked["perplexity"])


def test_a_picture_shows_what_the_table_says(data, smoke_specs):
    found = figures_of(data, smoke_specs)
    drawn = {trace.y[0]: trace for trace in picture(found, "fill in the blank").data}
    assert list(drawn)[:4] == ["own name", "another's name", "no name", "frequency"]
    rows = found[(found["probe"] == "fill in the blank") & (found["measure"] == "AUC") & (found["bin"] == "all")]
    own = rows[(rows["method"] == "name") & (rows["split"] == "member") & (rows["model"] == "target")].iloc[0]
    trace = drawn["own name"]
    assert trace.x[0] == own["value"]
    ends = f"own name: {own['value']:.2f}<br>95 %: {own['low']:.2f} to {own['high']:.2f}<br>"
    assert trace.hovertemplate.startswith(ends), "no more digits than the interval allows"
    assert trace.x[0] + trace.error_x.array[0] == pytest.approx(own["high"])
    assert trace.x[0] - trace.error_x.arrayminus[0] == pytest.approx(own["low"])


def test_ones_own_name_and_disease(data, smoke_specs):
    app = opened(run=smoke_specs["plain"].run_id)
    ask = next(button for button in app.button if button.label == "Ask the model")
    ask.click().run()
    assert not app.exception
    assert "times** as likely" in said(app) and len(app.metric) == 3
    assert not any("has a coded disease" in one.value for one in app.caption)
    cohort = smoke_specs["plain"].corpus.digest()
    app.text_input(key=f"try-name-{cohort}").set_value("<b>Nobody</b> *Known*")
    next(button for button in app.button if button.label == "Ask the model").click().run()
    assert not app.exception and "<b>" not in said(app)
    app.text_input(key=f"try-condition-{cohort}").set_value("zzz qqq")
    next(button for button in app.button if button.label == "Ask the model").click().run()
    assert any("No patient of this hospital has a coded disease called “zzz qqq”" in one.value for one in app.caption)
    app.text_input(key=f"try-condition-{cohort}").set_value(" ")
    next(button for button in app.button if button.label == "Ask the model").click().run()
    assert "Type a name and a disease" in app.error[0].value
    age = app.number_input(key=f"try-age-{cohort}")
    assert age.min is None and age.max is None, "the browser would keep another age back, and ask with this one"
    age.set_value(5)
    next(button for button in app.button if button.label == "Ask the model").click().run()
    assert [error.value for error in app.error] == ["“Age” takes a number from 18 to 110, not 5."]


def test_variants_of_the_notes_stand_side_by_side(data, smoke_specs):
    run = Workspace(data, shared=()).run(smoke_specs["plain"].run_id)
    other = run.spec.corpus.model_copy(update={"variant": "template-only"})
    twin = replace(run, spec=run.spec.model_copy(update={"corpus": other}))
    dp = Workspace(data, shared=()).run(smoke_specs["dp"].run_id)
    assert variants.siblings(run, [dp, twin, run]) == {"regular": run, "template-only": twin}
    found = figures_of(data, smoke_specs)
    table = compared({"regular notes": found, "template only": found.assign(value=0.25, low=0.2, high=0.3)})
    wide = variants.wide(table)
    assert wide["row"].tolist() == ["L2", "L3", "L3", "L4", "L5", "L6", "L7"]
    assert list(wide.columns) == ["row", "probe", "measure", "random guessing", "regular notes", "template only"]
    assert wide["measure"].tolist()[:3] == [*2 * ["AUC, name − another name"], "AUC"]
    assert wide["random guessing"].tolist() == ["0", "0", "0.5", "0", "0.5", "0.5", "–"]
    assert wide["template only"].str.endswith("0.250 (0.200 to 0.300)").all()
    decisive = table[(table["probe"] == "half a name") & (table["of"] == "regular notes")].iloc[0]
    row = found[(found["probe"] == "half a name") & (found["measure"] == "AUC") & (found["model"] == "target")]
    row = row[(row["bin"] == "last name") & (row["method"] == "own other half")].iloc[0]
    assert (decisive["value"], decisive["n"]) == (row["value"], row["n"])


def test_the_member_filled_in_is_of_the_runs_own_cohort(monkeypatch, smoke_specs, tmp_path):
    def page():
        import streamlit as st

        from pages.parts.probes import try_it

        try_it.box(st.session_state["run"])

    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    app = AppTest.from_function(page, default_timeout=WAIT)
    for seed in (0, 1):
        corpus = smoke_specs["dp"].corpus.model_copy(update={"seed": seed})
        spec = smoke_specs["dp"].model_copy(update={"corpus": corpus})
        app.session_state["run"] = Run(tmp_path / spec.run_id, spec, Status(state="done"), shipped=False)
        app.run()
        assert not app.exception
        patients = Workspace(tmp_path, shared=()).corpus(corpus).patients
        member = patients[patients["split"] == "member"].iloc[0]
        filled = [box.value for box in app.text_input]
        assert filled == [member["full_name"], member["diagnosis"]]
        assert app.selectbox[0].value == ("Mr." if member["sex"] == "M" else "Mrs.")
        assert app.number_input[0].value == member["age"]


def test_nothing_is_filled_in_that_an_upload_does_not_have(monkeypatch, smoke_specs, tmp_path):
    def page():
        import streamlit as st

        from pages.parts.probes import try_it

        try_it.box(st.session_state["run"])

    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    monkeypatch.setattr(owner, "owner", lambda: OWNER)
    spec = smoke_specs["dp"].model_copy(update={"corpus": bring(tmp_path).spec})
    app = AppTest.from_function(page, default_timeout=WAIT)
    app.session_state["run"] = Run(tmp_path / spec.run_id, spec, Status(state="done"), shipped=False)
    app.run()
    assert not app.exception
    assert app.selectbox[0].value is None and app.number_input[0].value is None
    assert app.caption[-1].value.endswith("Fill in the rest.")
    app.button[0].click().run()
    assert not app.exception and app.error[0].value.startswith("Choose a title and type an age")


def test_without_diagnoses_the_disease_filled_in_is_that_of_the_first_code_with_words():
    corpus = build(CORPUS_PRESETS["smoke"])
    patients = corpus.patients.assign(diagnosis=None)
    code, other = list(condition_words(corpus))[:2]
    members = patients[patients["split"] == "member"]
    patients.loc[:, "icd_codes"] = pd.Series([["no code"]] * len(patients), index=patients.index)
    assert try_it._example(replace(corpus, patients=patients))[1] is False
    patients.at[members.index[1], "icd_codes"] = ["no code", code, other]
    example, whole = try_it._example(replace(corpus, patients=patients))
    assert whole and example["patient_id"] == members["patient_id"].iloc[1]
    assert example["disease"] == condition_words(corpus)[code]


def test_a_base_model_that_is_not_there_is_a_sentence(monkeypatch, smoke_specs, tmp_path):
    def page():
        import streamlit as st

        from pages.parts.probes import try_it

        try_it.box(st.session_state["run"])

    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    monkeypatch.setattr(shipped_bases, "BASE_MODELS", tmp_path)
    spec = smoke_specs["base"]
    app = AppTest.from_function(page, default_timeout=WAIT)
    app.session_state["run"] = Run(tmp_path / spec.run_id, spec, Status(state="done"), shipped=False)
    app.run()
    app.button[0].click().run()
    assert not app.exception and "is not shipped" in app.error[0].value


def test_axis_titles_fit_a_card_in_a_narrow_window():
    """A card on a phone is narrower than the page, and its rows have names on the left."""
    for _, axis, _ in PICTURES.values():
        assert max(map(len, axis.split("<br>"))) <= 24, axis
