"""Home, driven without a browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from core.runs.store import Workspace
from pages.parts.home import best, pictures
from tests.pages.visit import WAIT

ROOT = Path(__file__).resolve().parents[3]
NEXT = "Next: the lesson, in five steps"


@pytest.fixture
def home(monkeypatch, leaky_workspace):
    monkeypatch.setenv("PHILAB_DATA", str(leaky_workspace))
    return AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT).run()


def html_of(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def test_home_says_what_it_is_and_that_nobody_is_real(home):
    assert not home.exception
    assert home.title[0].value == "PHI Leak Lab"
    assert any("no real people" in element.value for element in home.markdown)
    doors = {"Lesson", "Train", "ε trade-off", "Report", "Playground", "Patients"}
    of_every_page = {"All terms, with sources"}
    assert {link.proto.label for link in home.get("page_link")} == doors | of_every_page


def test_the_pictures_carry_the_audits_figures(home, leaky_workspace):
    runs = Workspace(leaky_workspace, shared=()).runs()
    plain = next(run for run in runs if run.spec.training.epochs and not run.spec.privacy.private)
    metrics = plain.metrics
    named = metrics[(metrics["metric"] == "full_name_patients") & (metrics["arm"] == "run")].iloc[0]
    assert named["value"] > 0
    drawn = html_of(home)
    assert f"trained on the notes of {int(named['n'])} patients" in drawn
    assert f'aria-label="{round(100 * named["value"])} of 100 patients named"' in drawn


def test_the_caption_that_speaks_of_two_trainings_comes_after_they_were_introduced(home):
    told = [str(getattr(element, "proto", "")) for element in home.main]
    (differ,) = [place for place, one in enumerate(told) if "The two runs differ" in one]
    (introduced,) = [place for place, one in enumerate(told) if "3. Trained with differential privacy" in one]
    assert introduced < differ


def test_the_most_useful_model_is_named_with_what_was_not_tried_on_it(leaky_workspace, monkeypatch):
    """Names alone say little about membership, and a public seed makes its ε no promise."""
    monkeypatch.setenv("PHILAB_DATA", str(leaky_workspace))
    workspace = Workspace(leaky_workspace, shared=())
    monkeypatch.setattr(best.owner, "workspace", lambda: workspace)
    private, plain = (next(run for run in workspace.runs() if run.spec.privacy.private == flag) for flag in (1, 0))
    tried = {private.id: {"loss": [], "zlib": []}, plain.id: {"loss": []}}
    monkeypatch.setattr(workspace, "audit", lambda run_id: SimpleNamespace(files=lambda table: tried[run_id]))
    said = {"sentence": lambda: "Useful.", "attacked": "{} others.".format}
    monkeypatch.setattr(best, "_best", lambda root, run_ids: SimpleNamespace(run_ids=(private.id,), **said))
    public = "Its noise has a public seed. Reproducible: ε is shown, not promised."
    assert best.best_measured() == f"Useful. 1 others. {public}", "every run had the loss attack"
    monkeypatch.setattr(best, "_best", lambda root, run_ids: SimpleNamespace(run_ids=(plain.id,), **said))
    assert best.best_measured() == "Useful. 0 others."
    monkeypatch.setattr(best, "_best", lambda root, run_ids: None)
    assert best.best_measured() == ""


@pytest.mark.parametrize("run", [object(), None])
def test_names_that_were_not_measured_are_not_drawn_as_none_of_100(monkeypatch, run):
    monkeypatch.setattr(pictures, "_patients_named", lambda run: {})
    drawn = pictures.named("Title", run, "pic-open", "A sentence.")
    assert "pic-people" not in drawn and "of 100" not in drawn
    assert ("names not measured" in drawn) == ("was not measured" in drawn) == (run is not None)


def test_none_of_100_is_drawn_where_that_was_measured(monkeypatch):
    monkeypatch.setattr(pictures, "_patients_named", lambda run: {"run": (0.0, 0.0, 0.01)})
    assert 'aria-label="0 of 100 patients named"' in pictures.named("Title", object(), "pic-open", "A sentence.")


def test_a_share_stands_with_its_interval_and_so_does_its_control(monkeypatch):
    figures = {"run": (0.29, 0.26, 0.31), "heldout": (0.0, 0.0, 0.0074)}
    monkeypatch.setattr(pictures, "_patients_named", lambda run: figures)
    drawn = pictures.named("Title", object(), "pic-open", "A sentence.").replace("\u00a0", " ")
    assert "In the audit of this one run, it wrote" in drawn, "other pages have means of several runs"
    assert "(95 % interval 26 % to 31 %; patients it never saw: 0 %, 0 % to 0.74 %)" in drawn


def test_one_click_shows_a_leak_on_the_left(home):
    home.pills(key="home_chips").set_value("Patient:").run()
    assert not home.exception
    left, right = home.session_state["tries"][-1].answers
    assert left.samples_with_leak > 0 and right.samples_with_leak == 0
    assert "leak: full name of patient" in html_of(home)
    assert NEXT in {link.proto.label for link in home.get("page_link")}, "the next step is above the texts"


def test_who_leaked_on_home_leads_to_what_was_written_about_them(home):
    home.pills(key="home_chips").set_value("Patient:").run()
    left = home.session_state["tries"][-1].answers[0]
    patient, texts = left.leaked.most_common(1)[0]
    link = next(one for one in home.get("page_link") if one.proto.label == "This patient's card")
    assert link.proto.page == "patients" and f"run={left.run_id}" in link.proto.query_string
    home.switch_page(str(ROOT / "pages/patients.py"))
    home.query_params["run"], home.query_params["patient"] = left.run_id, patient
    home.run()
    assert not home.exception
    assert any(f"### Texts about this patient in this session: {texts}" == one.value for one in home.markdown)
    assert f"leak: full name of patient {patient}" in html_of(home)


def test_without_models_home_still_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    home = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT).run()
    assert not home.exception
    assert any("Train one first" in info.value for info in home.info)
    assert len(home.get("html")) >= 4, "the pictures are there without figures"


@pytest.mark.slow
def test_drawing_home_and_playground_needs_neither_torch_nor_scipy():
    """Both take seconds to import, and a first screen must not wait for them."""
    parts = (
        *("pages.parts.playground.side_by_side", "pages.parts.playground.prompt_session"),
        *("pages.parts.playground.leak_counts", "pages.parts.pickers.run_picker", "pages.parts.home.pictures"),
        "core.attacks.prompts",
    )
    code = f"import sys; import {', '.join(parts)}; sys.exit(bool({{'torch', 'scipy.stats'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0  # noqa: S603
