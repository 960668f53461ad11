"""Inside a step: the page's numbers against the gradients, and what it says at the ends of its knobs."""

from __future__ import annotations

import errno
import json
import math
import re
from statistics import NormalDist
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from core.__main__ import main
from core.runs.run import Run, RunBroken
from core.runs.store import Workspace
from core.training.checks import steps
from core.training.gradients.clipping import Clipper
from core.training.step_gradients import StepGradients
from pages.parts.step import charts, gradients, sentences
from pages.parts.step.background import Background
from tests.pages.visit import said, visit


def control(app, begins):
    """The slider or toggle with a key that begins so; the run's id follows."""
    return next(one for one in (*app.slider, *app.toggle) if one.key.startswith(begins))


@pytest.fixture(scope="module")
def stored(smoke_workspace, smoke_specs, tmp_path_factory):
    """The gradients of the private run, by the command line."""
    file = tmp_path_factory.mktemp("step") / "step.safetensors"
    run = smoke_specs["dp"].run_id
    assert main(["step", run, "--out", str(file), "--units", "96", "--data", str(smoke_workspace)]) == 0
    return StepGradients.load(file)


def test_the_page_shows_what_the_command_computes(data, stored, smoke_specs):
    app = visit("step")
    assert not app.exception and len(app.get("plotly_chart")) == 3
    every = np.ones(len(stored), dtype=bool)
    total = stored.clipped(1.0, every)
    assert f"**{total.clipped} of {len(stored)}** gradients are cut" in said(app)
    assert f"Their sum is **{total.length:.3g}** long" in said(app)
    control(app, "step-norm").set_value(0.05).run()
    control(app, "step-inside").set_value(False).run()
    assert not app.exception
    every[0] = False
    total = stored.clipped(0.05, every)
    assert f"**{len(stored) - 1} of {len(stored) - 1}** gradients are cut to the length C = 0.05" in said(app)
    assert f"Their sum is **{total.length:.3g}** long" in said(app)
    assert "This note moves the sum by **0.05**, and no note by more than C = 0.05." in said(app)
    control(app, "step-sigma").set_value(0.0).run()
    assert not app.exception and "**100 of 100** guesses are right" in said(app)
    next(button for button in app.button if button.label == "Reset").click().run()
    total = stored.clipped(1.0, np.ones(len(stored), dtype=bool))
    assert f"**{total.clipped} of {len(stored)}** gradients are cut" in said(app)
    assert control(app, "step-inside").value and control(app, "step-sigma").value > 0


def test_untouched_noise_is_the_runs_own_to_the_last_digit(data, smoke_specs):
    """The slider has two decimals. A bound computed from them would be too low where they are rounded up."""
    sigma = Workspace(data, shared=()).run(smoke_specs["dp"].run_id).privacy.noise_multiplier
    app = visit("step")
    slider = control(app, "step-sigma")
    assert slider.value == round(sigma, 2) != sigma
    (shown,) = re.findall(r"at most \*\*([\d.]+)\u00a0%\*\*", said(app))
    (moved,) = re.findall(r"This note moves the sum by \*\*([\d.]+)\*\*", said(app))
    assert moved == "1", "as far as C lets it"
    right = 100 * NormalDist().cdf(1 / (2 * sigma))
    assert right <= float(shown) < right + 0.01


def test_a_run_per_patient_is_described_by_patients(stored, smoke_workspace, smoke_specs):
    assert "sum over the patient's notes" in sentences.how("patient") and "part of the patients" in sentences.how(
        "patient"
    )
    assert "of the note's mean loss" in sentences.how("note") and "{" not in sentences.how("note")
    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["dp"].run_id)
    privacy = run.spec.privacy.model_copy(update={"unit": "patient"})
    each = SimpleNamespace(spec=run.spec.model_copy(update={"privacy": privacy}), figures_only=False, has_model=True)
    assert "in the order of the patients" in sentences.whose(stored, each)


def test_without_a_private_run_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    assert "There is no private run yet" in visit("step").info[0].value


def test_a_training_without_weights_is_not_taken_for_the_one_on_home(stored, smoke_workspace, smoke_specs):
    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["dp"].run_id)
    assert run.has_model and sentences.whose(stored, run).endswith("Each step draws a new sample.")
    lacking = SimpleNamespace(spec=run.spec, figures_only=True, has_model=False)
    assert sentences.whose(stored, lacking).endswith(
        "“Figures only”: this run's texts and scores were left out. Its weights are not kept, so a model with a "
        "similar name on Home is from another run."
    )


def test_the_chance_of_a_right_guess_is_that_of_two_bells():
    """Known answer: at a distance of two standard deviations, Φ(1) = 84.134 % of guesses are right, told rounded up."""
    assert "at most **84.14\u00a0%**" in sentences.hidden(1.0, 1.0, 0.5, "note")
    assert "at most **50\u00a0%**" in sentences.hidden(0.0, 1.0, 0.5, "note")
    assert "at most **just under 100\u00a0%**" in sentences.hidden(1.0, 1.0, 0.04, "note"), "1.0 in double precision"
    rng = np.random.default_rng(0)
    inside = rng.integers(0, 2, 200_000)
    seen = inside * 0.7 + rng.normal(size=200_000) * 1.3 * 0.9
    right = ((seen > 0.35) == inside).mean()
    told = sentences.hidden(0.7, 0.9, 1.3, "note")
    (shown,) = re.findall(r"at most \*\*([\d.]+)\u00a0%\*\*", told)
    assert float(shown) == pytest.approx(100 * right, abs=0.4), "of 200,000 guesses: four standard errors"


def test_work_that_fails_says_why_and_is_tried_again():
    tried = []

    def failing(report):
        tried.append(report)
        raise RunBroken("the first step of this run sampled no notes")

    work = Background(failing)
    for times in (1, 2):
        assert work.wait("Reading") is None
        assert work.error == "the first step of this run sampled no notes" and len(tried) == times


@pytest.mark.parametrize("error", [KeyError("split"), ValueError("Length of values (3) does not match"), TypeError()])
def test_work_that_ends_in_a_fault_says_so_and_logs_where(error, caplog):
    """“'split'” on a page helps nobody, and without a traceback nobody could find the fault."""

    def failing(report):
        raise error

    work = Background(failing)
    assert work.wait("Reading") is None
    name = type(error).__name__
    assert work.error.startswith(f"The computation stopped because of an unexpected error ({name}). Try again")
    assert "Traceback" in caplog.text and name in caplog.text


def test_work_that_meets_a_file_it_may_not_read_names_it():
    def failing(report):
        raise PermissionError(errno.EACCES, "no", "/data/runs")

    work = Background(failing)
    assert work.wait("Reading") is None
    assert work.error.startswith("This account may not use /data/runs: permission denied.")


def test_the_bars_and_the_path_add_up_to_the_gradients(stored):
    chosen = np.ones(len(stored), dtype=bool)
    bars = charts.lengths(stored, 0.5, chosen, 0, "note").data
    assert np.asarray(bars[0].y) + np.asarray(bars[2].y) == pytest.approx(np.sort(stored.norms)[::-1])
    keys = {bar.name: bar.marker.color for bar in bars if bar.x[0] is None and bar.type == "bar"}
    assert set(bars[0].marker.color) == set(keys.values()), "the legend has every colour of the kept parts"
    plane = charts.plane(stored, 0.5, 1.0, chosen, 0, "patient")
    titles = [plane.layout.xaxis.title.text, plane.layout.yaxis.title.text]
    assert titles == ["first principal direction", "second principal direction"], "“second” alone reads as a time"
    path = plane.data[0]
    assert path.name == "sum, patient by patient"
    end = stored.clipped(0.5, chosen).place
    assert (path.x[-1], path.y[-1]) == pytest.approx(tuple(end)) and (path.x[0], path.y[0]) == (0, 0)
    cloud = charts.plane(stored, 0.5, 2.0, chosen, 0, "note").data[1]
    assert np.std(np.asarray(cloud.x) - end[0]) == pytest.approx(1.0, rel=0.15), "σC"
    assert len(charts.bells(0.4, 1.0, 0.0, 0.4).data) == 3 and math.isfinite(
        charts.bells(0.4, 1.0, 1.0, 9.0).data[0].x[-1]
    )


def test_a_step_that_sampled_a_single_patient_is_shown(smoke_workspace, smoke_specs):
    """As a small cohort's run per patient may: one gradient has no second direction."""
    one = StepGradients(("N0001",), ("P0001",), np.array([[9.0]]), parameters=100, expected=1.2, sampled=1)
    plane = charts.plane(one, 0.5, 1.0, np.array([True]), 0, "patient")
    assert tuple(plane.data[0].x) == (0, 0.5) and tuple(plane.data[0].y) == (0, 0)
    assert one.explained == 1 and len(plane.data[1].y) == charts.CLOUD
    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["dp"].run_id)
    assert sentences.whose(one, run).startswith("The only note of step 1. Each step draws a new sample.")


def test_notes_of_a_secret_sample_are_not_said_to_be_all_that_may_be_in_it(smoke_workspace, smoke_specs):
    """“The 30 notes that a step of this run may sample”, of 113 training notes."""
    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["dp"].run_id)
    privacy = run.spec.privacy.model_copy(update={"noise_source": "secret"})
    secret = SimpleNamespace(spec=run.spec.model_copy(update={"privacy": privacy}), figures_only=False, has_model=True)
    drawn = StepGradients(("N1", "N2"), ("P1", "P2"), np.eye(2), parameters=100, expected=2.0, sampled=2)
    assert sentences.whose(drawn, cast(Run, secret)) == (
        "The 2 notes of a sample drawn as in a step of this run (its own samples are secret), in the order of the "
        "notes. Each step draws a new sample."
    )


def test_a_base_model_has_no_step(smoke_workspace, smoke_specs, tmp_path, capsys):
    out = tmp_path / "none.safetensors"
    asked = ["step", smoke_specs["base"].run_id, "--out", str(out), "--data", str(smoke_workspace)]
    assert main(asked) == 2 and not out.exists()
    assert "has no first step" in capsys.readouterr().err


def test_a_file_that_is_there_is_not_overwritten(smoke_workspace, smoke_specs, tmp_path, capsys):
    out = tmp_path / "mine.txt"
    out.write_text("mine")
    assert main(["step", smoke_specs["dp"].run_id, "--out", str(out), "--data", str(smoke_workspace)]) == 2
    assert "exists already" in capsys.readouterr().err and out.read_text() == "mine"


@pytest.fixture
def of_few_notes(monkeypatch):
    """The checks take their steps with 8 notes, not 32, and take out 2 of them: tests/training/checks has the others.

    What a step costs grows with its notes, and each of these checks takes 20 steps.
    """
    monkeypatch.setattr(steps, "PROBES", 2)
    monkeypatch.setattr(steps, "BESIDE", 6)


@pytest.mark.usefixtures("of_few_notes")
def test_the_page_and_the_command_check_the_same_steps(data, smoke_specs, capsys):
    run = smoke_specs["dp"].run_id
    assert main(["prove", run, "--data", str(data), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["passed"] and len(told["checks"]) > 12
    app = visit("step", run=run)
    assert "checks passed" not in "".join(one.value for one in app.success), "nothing before it is asked for"
    app.button(key="step-prove").click().run()
    assert not app.exception and app.success[0].value == f"All {len(told['checks'])} checks passed."
    table = next(block.body for block in app.get("html") if "tally checks" in block.body)
    assert table.count("✓") == len(told["checks"]) and "largest move / C" in table


@pytest.mark.usefixtures("of_few_notes")
def test_a_failed_check_is_said_and_comes_first(data, smoke_specs, capsys, monkeypatch):
    monkeypatch.setattr(Clipper, "noisy_gradient", lambda self, sigma, units, rng: self.clipped_gradient(units))
    run = smoke_specs["dp"].run_id
    assert main(["prove", run, "--data", str(data)]) == 1
    assert "WRONG The sum of a step gets noise once" in capsys.readouterr().out
    gradients._checking.clear()
    app = visit("step", run=run)
    app.button(key="step-prove").click().run()
    assert "Do not rely on" in app.error[0].value and not app.success
    table = next(block.body for block in app.get("html") if "tally checks" in block.body)
    assert table.index("✗") < table.index("✓")
    gradients._checking.clear()


def test_what_promises_nothing_is_not_checked(data, smoke_specs, capsys):
    assert main(["prove", smoke_specs["plain"].run_id, "--data", str(data)]) == 2
    assert "promises no ε" in capsys.readouterr().err
