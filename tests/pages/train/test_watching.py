"""A training on the page Train: the texts of its epochs, the model before its audit, and the verdict at the end."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from streamlit.testing.v1 import AppTest

from core.evaluation import comparison
from core.jobs.engine import Engine
from core.jobs.limits import Limits
from core.runs.events import Status, append_event, write_status
from core.runs.lock import held
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import PrivacySpec, RunSpec
from pages.parts.jobs import monitor, samples, verdict_view
from pages.parts.pickers import hospitals
from tests.pages.visit import said, visit

opened = partial(visit, "train")
NAME = "Ada <b>Byron</b>"


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def finished(data: Path, smoke_workspace: Path) -> Path:
    shutil.copytree(smoke_workspace, data, dirs_exist_ok=True)
    return data


def drawn(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def wrote(work: Path, epoch: int, text: str, *, leaks: bool) -> None:
    span = {
        "start": 1,
        "end": len(text),
        "field": "full_name",
        "value": text[1:],
        "kind": "leak",
        "patient_ids": ["P1"],
    }
    fields = {"epoch": epoch, "step": epoch, "prompt": "Patient:", "seed": 0, "text": text}
    append_event(work, {"event": "sample", **fields, "spans": [span] if leaks else []})


def test_the_strip_of_texts_grows_in_every_browser_and_escapes_what_a_model_wrote(data, smoke_spec) -> None:
    spec = smoke_spec(epsilon=8.0)
    workspace = Workspace(data, shared=())
    work = workspace.begin(spec)
    write_status(work, Status(state="running", submitted=1.0))
    append_event(work, {"event": "stage", "stage": "training", "message": "Training"})
    with held(workspace.lock_file(spec.run_id), should_stop=lambda: False):
        wrote(work, 0, " a cough", leaks=False)
        assert "The first card is the public model's text." in said(opened())
        wrote(work, 1, " nobody", leaks=False)
        wrote(work, 2, f" {NAME}", leaks=True)
        for app in (opened(), opened()):
            html = drawn(app)
            assert [html.index(f"<b>{name}</b>") for name in ("epoch 2", "epoch 1", "before training")] == sorted(
                html.index(f"<b>{name}</b>") for name in ("epoch 2", "epoch 1", "before training")
            ), "the newest first: the row runs from right to left"
            assert "Ada &lt;b&gt;Byron&lt;/b&gt;" in html and NAME not in html
            assert html.count("phi-card phi-lit") == 1
            assert "A training patient's identifier in 1 of 2 texts, first at epoch 2." in said(app)


def test_what_is_said_of_the_texts() -> None:
    from core.phi.spans import Span
    from core.runs.progress import EpochSample

    leak = Span(0, 3, "full_name", "Ada", "leak", ("P1",))
    first, second = EpochSample(0, 0, "Patient:", " x", ()), EpochSample(1, 4, "Patient:", " y", ())
    assert samples.leaks_sentence([first, second]) == "No training patient's identifier in the text."
    assert samples.leaks_sentence([first, second], active=True).startswith("So far no training patient's identifier in")
    third = EpochSample(2, 8, "Patient:", "Ada", (leak,))
    assert "in 1 of 2 texts, first at epoch 2" in samples.leaks_sentence([first, second, third])
    private = RunSpec(corpus={}, privacy=PrivacySpec(target_epsilon=8.0))
    assert samples.WOULD_BE_COVERED in samples.how([first], private), "its seed is public"
    secret = RunSpec(corpus={}, privacy=PrivacySpec(target_epsilon=8.0, noise_source="secret"))
    assert samples.COVERED in samples.how([first], secret)
    plain = RunSpec(corpus={})
    assert "covers" not in samples.how([first], plain)


def test_a_finished_training_is_shown_after_a_reload_with_its_verdict_and_its_texts(finished, smoke_specs) -> None:
    app = opened()
    assert "training patients were named in full" in said(app) or "training patients was named" in said(app)
    assert "Tried: 56 texts, after 14 prompts without names." in said(app)
    assert "phi-strip" in drawn(app) and "epoch 2" in drawn(app)
    labels = {link.proto.label for link in app.get("page_link")}
    assert {"Open in Playground", "Who was in the data?"} <= labels
    shown = app.session_state["watched"] if "watched" in app.session_state else Workspace(finished).runs()[0].id
    side = "right" if Workspace(finished).run(shown).spec.privacy.private else "left"
    links = [one.proto for one in app.get("page_link") if one.proto.label == "Open in Playground"]
    link = links[0]  # those of the queue follow
    assert link.query_string == f"{side}={shown}", "a private run stands on the right, beside one without privacy"
    charts = [json.loads(one.proto.spec) for one in app.get("plotly_chart")]
    verdict = next(
        chart
        for chart in charts
        if {"training patients", "held-out patients (control)"} == {line["name"] for line in chart["data"]}
    )
    assert all(len(line["x"]) == 2 for line in verdict["data"]), "this run and its counterpart, each with its control"
    assert not any(button.key and button.key.startswith("counterpart-") for button in app.button)


def test_without_a_counterpart_one_can_be_trained(finished, smoke_specs, monkeypatch) -> None:
    asked: list[RunSpec] = []
    monkeypatch.setattr("pages.parts.jobs.monitor.submit", lambda spec: asked.append(spec))
    plain, private = smoke_specs["plain"], smoke_specs["dp"]
    shutil.rmtree(finished / "runs" / private.run_id)
    app = opened()
    assert "Nothing to compare with yet: no run with ε = 8 per note on this cohort." in said(app)
    app.button(key=f"counterpart-{plain.run_id}").click().run()
    assert not app.exception
    (spec,) = asked
    assert (spec.corpus, spec.model, spec.audit) == (plain.corpus, plain.model, plain.audit)
    assert spec.privacy.target_epsilon == 8.0 and spec.training.seed == plain.training.seed
    notes = len(Workspace(finished, shared=()).corpus(plain.corpus).training_notes())
    assert spec.training.batch_size <= notes


def test_the_counterpart_of_a_run_without_noise_is_the_run_whose_control_it_is(smoke_spec) -> None:
    control = smoke_spec(epsilon=8.0).clipped_spec()
    offered = verdict_view._missing(control, {})
    assert offered.clipped_spec() == control and offered.privacy.target_epsilon == 8.0
    assert verdict_view._missing(control, {"private": cast(Run, object())}) is None


def test_a_control_without_noise_hides_no_other_difference(smoke_specs) -> None:
    plain, private = ({"spec": smoke_specs[name]} for name in ("plain", "dp"))
    control = {"spec": smoke_specs["dp"].clipped_spec()}
    base = {"spec": smoke_specs["dp"].base_spec()}

    def told(*runs: dict) -> str:
        return comparison.differences([cast(Run, SimpleNamespace(**run)) for run in runs])

    assert told(private, control, base, plain) == told(private, plain) != ""
    assert told(private, control) == told(control, plain) == told(private, base) == ""


def test_models_of_two_hospitals_are_not_compared_in_silence(smoke_specs) -> None:
    plain = smoke_specs["plain"]
    away = plain.model_copy(update={"corpus": plain.corpus.model_copy(update={"seed": 3})})
    pairs = [[cast(Run, SimpleNamespace(spec=spec)) for spec in (plain, other)] for other in (smoke_specs["dp"], away)]
    assert hospitals.differ(pairs[0]) == "" and "different hospitals" in hospitals.differ(pairs[1])


def test_the_model_can_be_tried_while_its_audit_goes_on(finished, smoke_specs) -> None:
    run_id = smoke_specs["plain"].run_id
    (finished / "work").mkdir(exist_ok=True)
    work = (finished / "runs" / run_id).rename(finished / "work" / run_id)
    write_status(work, Status(state="running", submitted=1.0))
    (work / "tables" / "metrics.parquet").unlink()
    workspace = Workspace(finished, shared=())
    with held(workspace.lock_file(run_id), should_stop=lambda: False):
        append_event(work, {"event": "stage", "stage": "audit: membership", "message": ""})
        app = opened()
        assert "Training is over. The audit goes on." in said(app)
        assert "Try the model now" in {link.proto.label for link in app.get("page_link")}
        playground = visit("playground", right=run_id)
        (box,) = [box for box in playground.selectbox if box.label == "Right model"]
        assert "not audited yet" in next(name for name in box.options if "not audited yet" in name)
        assert not playground.exception and not playground.error
        assert run_id not in {option for option in visit("membership").selectbox[0].options}


def test_in_a_class_the_newest_run_of_others_comes_below_ones_own_settings(finished, monkeypatch) -> None:
    """A student who opens the page would take another student's verdict for the result of these settings."""
    headings = [one.value for one in opened().header]
    assert headings.index("Latest run on this server") < headings.index("Before the next training")
    monkeypatch.setattr(monitor.engine(), "limits", Limits.of({"PHILAB_CLASS": "1"}))
    headings = [one.value for one in opened().header]
    assert headings.index("Before training") < headings.index("Latest run on this server")
