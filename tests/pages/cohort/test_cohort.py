"""Cohort, driven without a browser."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.corpus.synthetic.hospital import build
from core.spec import CORPUS_PRESETS, OPENING
from pages.parts.cohort import view
from pages.parts.cohort.view import NOTES_A_PAGE
from tests.pages.visit import visit

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def cohort(monkeypatch, tmp_path):
    """Opens the page with the given query parameters."""
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))

    return partial(visit, "cohort")


def notes_html(app: AppTest) -> list[str]:
    return [element.value for element in app.html if 'class="phi-text"' in element.value]


def key_of(app: AppTest) -> list[str]:
    """The kinds of mark that the legend above the notes explains."""
    (legend,) = [element.value for element in app.html if 'class="phi-legend"' in element.value]
    return re.findall("<b>([a-z]+)</b>", legend)


def test_it_opens_on_the_hospital_that_the_pages_open_with(cohort):
    app = cohort()
    assert app.title[0].value == "Cohort"
    assert app.metric[0].value == f"{round(0.7 * CORPUS_PRESETS[OPENING].patients):,}"
    assert len(notes_html(app)) == NOTES_A_PAGE


def test_a_preset_is_picked_and_its_phi_is_named_in_words(cohort):
    app = cohort(cohort="tiny")
    corpus = build(CORPUS_PRESETS["smoke"])
    members = corpus.notes[corpus.notes["split"] == "member"]
    assert app.metric[0].value == f"{members['patient_id'].nunique()}"
    assert app.metric[0].delta == f"patients, {len(members):,} notes"
    whole = (corpus.canaries["form"] == "patient").sum()
    of = f"of {len(corpus.canaries)}, {whole} of them patients"
    assert app.metric[3].delta == of, "a coin left the others out"
    assert app.metric[2].label == "Population (for the attacker)", "thresholds, and what reference models learn from"
    (described,) = [one.value for one in app.caption if "name their patient" in one.value]
    assert described.startswith(f"{len(corpus.notes):,} notes, counted by group below; "), "not about so many"
    shown = "".join(notes_html(app))
    assert "<b>full name</b>" in shown, "every note of this preset names its patient"


def test_words_and_codes_of_a_link_stay_even_where_they_read_as_numbers(cohort):
    app = cohort(cohort="tiny", words="inf", code="NaN")
    assert [app.text_input(key=key).value for key in ("words", "code")] == ["inf", "NaN"]
    assert not notes_html(app)


def test_filters_narrow_what_is_shown(cohort):
    app = cohort(cohort="tiny")
    corpus = build(CORPUS_PRESETS["smoke"])
    who = corpus.patients.iloc[0]
    app.text_input(key="patient").set_value(who["full_name"]).run()
    own = int((corpus.notes["patient_id"] == who["patient_id"]).sum())
    assert any(f"**{own}** of {len(corpus.notes)}" in element.value for element in app.markdown)
    app.text_input(key="words").set_value("no note says this <script>").run()
    assert not app.exception
    assert any("No note matches these filters" in info.value for info in app.info)


def test_entities_are_marked_on_demand(cohort):
    app = cohort(cohort="tiny")
    assert "phi-entity" not in "".join(notes_html(app))
    assert key_of(app) == ["direct", "health", "physical"]
    app.toggle(key="entities").set_value(True).run()
    assert "phi-entity" in "".join(notes_html(app))
    assert key_of(app) == ["direct", "health", "physical", "entity"], "every colour has a key"


@pytest.mark.parametrize("shown", ["Fields", "Codes", "Lengths"])
def test_every_chart_has_its_numbers_and_a_download(cohort, shown):
    app = cohort(cohort="tiny")
    app.session_state["view"] = shown
    app.run()
    assert not app.exception
    assert len(app.get("plotly_chart")) == 1
    assert len(app.dataframe) == 1 and len(app.dataframe[0].value) > 0
    assert len(app.get("download_button")) == 1


def test_the_type_of_a_note_in_a_file_is_no_markup_in_its_chart(monkeypatch):
    corpus = build(CORPUS_PRESETS["smoke"])
    named = corpus.notes.assign(note_type='<a href="https://example.com/">Discharge</a>')
    drawn = []
    monkeypatch.setattr(view.chart_style, "show", lambda figure, **how: drawn.append(figure))
    monkeypatch.setattr(view, "data_table", lambda *args, **how: None)
    view.lengths(replace(corpus, notes=named))
    (label,) = drawn[0].data[0].y
    assert label.startswith("&lt;a href=&quot;https://example.com/&quot;&gt;Discharge&lt;/a&gt; (")


def test_canaries_come_with_the_coin(cohort):
    app = cohort(cohort="tiny")
    app.session_state["view"] = "Canaries"
    app.run()
    canaries = build(CORPUS_PRESETS["smoke"]).canaries
    assert len(app.dataframe[0].value) == len(canaries)
    told = next(element.value for element in app.markdown if "fair coin" in element.value)
    assert f"Heads ({canaries['inserted'].sum()} of them)" in told


@pytest.mark.parametrize(("imported", "how"), [(None, "Design a custom cohort"), ("0f" * 8, "Import your notes again")])
def test_a_cohort_without_canaries_says_how_to_get_some(monkeypatch, imported, how):
    """For a cohort of uploaded notes, a custom synthetic one is no answer."""
    corpus = build(CORPUS_PRESETS["smoke"])
    spec = corpus.spec.model_copy(update={"imported": imported})
    said: list[str] = []
    monkeypatch.setattr(view.st, "info", lambda text, **_: said.append(text))
    view.canaries(replace(corpus, canaries=corpus.canaries.iloc[:0], spec=spec))
    assert len(said) == 1 and how in said[0]


@pytest.mark.parametrize("page", ["cohort", "train"])
def test_looking_at_a_hospital_of_ones_own_takes_no_room_on_the_disk(cohort, tmp_path, page):
    app = visit(page, cohort="custom", patients="44", others="0", canaries="0", cohort_seed="3")
    assert not app.exception and not app.error
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_hospital_of_ones_own(cohort):
    app = cohort(cohort="custom", patients="40", others="0", canaries="0", cohort_seed="3")
    assert app.metric[0].value == "28" and app.metric[1].value == "12"
    assert not any("canary" in metric.label.lower() and metric.value != "0" for metric in app.metric)


def test_a_link_with_impossible_settings_opens_all_the_same(cohort):
    app = cohort(cohort="custom", patients="-7", naming="400", others="0", canaries="0")
    assert [error.value for error in app.error] == ["“Patients” takes a number from 4 to 200,000, not -7."]
    assert 0 <= app.slider(key="naming").value <= 100


@pytest.mark.parametrize(
    ("key", "typed", "told"),
    [
        ("patients", 3, "“Patients” takes a number from 4 to 200,000, not 3."),
        ("canaries", 5_001, "“Canary sentences” takes a number from 0 to 5,000, not 5,001."),
        ("lines", -1, "“Canaries of random words” takes a number from 0 to 5,000, not -1."),
        ("others", -1, "“Population patients” takes a number from 0 to 200,000, not -1."),
        ("cohort_seed", -1, "“Seed” takes a number from 0 to 1,000,000, not -1."),
    ],
)
def test_a_number_out_of_its_range_makes_no_other_hospital(cohort, key, typed, told):
    app = cohort(cohort="custom", patients="40", others="0", canaries="0", cohort_seed="3")
    box = app.number_input(key=key)
    assert box.min is None and box.max is None
    app = box.set_value(typed).run()
    assert [error.value for error in app.error] == [told] and not app.metric


def test_a_hospital_that_cannot_be_built_is_a_sentence(cohort):
    app = cohort(cohort="custom", patients="4", others="0", canaries="5000", notes="1")
    assert any("5,000 canaries are too many to keep apart" in error.value for error in app.error)


def test_words_that_are_no_choice_and_no_pattern_only_find_nothing(cohort):
    app = cohort(cohort="tiny", view="<b>x</b>", split="nobody", patient="👩" * 500, words="(" * 500)
    assert any("No note matches these filters" in info.value for info in app.info)


def test_a_hospital_too_large_to_build_here_gets_its_command(cohort, tmp_path):
    app = cohort(cohort="MIMIC scale")
    assert any("too many to build" in info.value for info in app.info)
    assert "python -m core corpus --preset mimic-scale" in app.code[0].value
    assert not list(tmp_path.rglob("*.parquet")), "nothing was built"


@pytest.mark.slow
def test_drawing_a_cohort_needs_no_torch():
    parts = "pages.parts.cohort.view, pages.parts.pickers.cohort_picker"
    code = f"import sys; import {parts}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0  # noqa: S603
