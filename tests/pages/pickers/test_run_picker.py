"""Boxes of runs: their order, the names of controls, which public models are offered, and one's own run first."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.evaluation.sweep.beside import noiseless
from core.runs.events import Status
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import (
    CORPUS_PRESETS,
    OPENING,
    DefenceSpec,
    ModelSpec,
    PrivacySpec,
    RunSpec,
    TrainingSpec,
    VocabularySpec,
)
from pages.parts.pickers import linked_choice, run_picker
from tests.pages.visit import ROOT, WAIT, visit


def run(
    kind: str = "gpt2",
    *,
    epsilon: float | None = None,
    hospital: str = OPENING,
    finished: float | None = None,
    **training,
) -> Run:
    spec = RunSpec(
        corpus=CORPUS_PRESETS[hospital],
        model=ModelSpec(kind=kind),
        privacy=PrivacySpec(target_epsilon=epsilon),
        training=TrainingSpec(**training),
    )
    return Run(Path("runs") / spec.run_id, spec, Status(state="done", finished=finished), shipped=finished is None)


def test_a_box_lists_what_was_made_here_first_then_hospital_by_hospital():
    opening = CORPUS_PRESETS[OPENING]
    other = next(name for name, spec in CORPUS_PRESETS.items() if spec != opening)
    wanted = [
        run(epsilon=2.0, finished=20.0),
        run(epsilon=4.0, finished=10.0),
        run(),
        run(seed=1),
        run(epsilon=100.0),
        run(epsilon=8.0),
        run(epsilon=1.0),
        run(clip_norm=1.0),
        run("distilbert"),
        run("distilbert", epsilon=8.0),
        run(hospital=other),
        run("distilbert", hospital=other),
    ]
    for seed in range(5):
        shuffled = random.Random(seed).sample(wanted, len(wanted))
        assert [one.id for one in run_picker.in_order(shuffled)] == [one.id for one in wanted]


def test_a_control_without_noise_is_named_after_the_private_runs_that_it_belongs_to():
    private = [run(epsilon=8.0), run(epsilon=3.0), run(epsilon=1.0, epochs=2)]
    spec = private[0].spec.clipped_spec()
    control = Run(Path("runs") / spec.run_id, spec, Status(state="done"), shipped=True)
    names = run_picker.labels([*private, control])
    assert names[control.id] == "GPT-2 · as for ε = 8 and 3 per note, but without noise (no privacy)"
    alone = run_picker.labels([control, private[2]])
    assert alone[control.id] == "GPT-2 · same training without noise (no privacy)"


def test_a_run_with_private_words_has_a_label_and_no_control_without_noise():
    spec = RunSpec(
        corpus=CORPUS_PRESETS[OPENING],
        model=ModelSpec(kind="bert"),
        privacy=PrivacySpec(target_epsilon=8.0),
        vocabulary=VocabularySpec(epsilon=1.0),
    )
    own_words = Run(Path("runs") / spec.run_id, spec, Status(state="done"), shipped=False)
    private = run("bert", epsilon=8.0)
    control = Run(Path("runs") / "control", private.spec.clipped_spec(), Status(state="done"), shipped=True)
    every = [own_words, private, control]
    vars(own_words)["epsilon"] = 8.1  # which a stored run reads from its files
    assert run_picker.labels(every)[own_words.id].startswith("BERT · ε = 8.1 per note")
    assert spec.clipped_id is None and noiseless([own_words], every) == []
    assert noiseless(every, every) == [control]
    with pytest.raises(ValueError, match="no control without noise"):
        spec.clipped_spec()


def test_a_public_model_is_offered_only_beside_a_run_that_was_trained_from_it(data, monkeypatch):
    runs = Workspace(data, shared=()).runs()
    trained = [one for one in runs if one.has_model and not one.spec.is_base]
    base = next(one for one in runs if one.spec.run_id == trained[0].spec.base_spec().run_id)
    spec = base.spec.model_copy(update={"corpus": base.spec.corpus.model_copy(update={"seed": 99})})
    stray = Run(base.folder, spec, base.status, shipped=False)

    class Everything(Workspace):
        def runs(self) -> list[Run]:
            return [*super().runs(), stray]

    monkeypatch.setattr(run_picker.owner, "workspace", lambda: Everything(data, shared=()))
    offered = {one.spec.run_id for one in run_picker.promptable()}
    assert base.has_model and base.spec.run_id in offered and spec.run_id not in offered


def test_a_short_name_says_what_was_changed_and_takes_an_id_only_where_nothing_else_differs():
    plain = run()
    defended = [
        Run(plain.folder, plain.spec.model_copy(update={"defence": spec}), plain.status, shipped=True)
        for spec in (DefenceSpec(scrub_recall=0.95), DefenceSpec(deduplicate=True))
    ]
    assert run_picker.short_names(defended) == ["no privacy, scrubbed (recall 95 %)", "no privacy, deduplicated"]
    assert run_picker.short_names([plain, defended[1]]) == ["no privacy", "no privacy, deduplicated"]
    assert run_picker.short_names([plain, run("distilbert")]) == ["GPT-2, no privacy", "DistilBERT, no privacy"]
    left_out = [
        Run(plain.folder, plain.spec.model_copy(update={"without": patients}), plain.status, shipped=True)
        for patients in (("P-7",), ("P-7", "P-8"))
    ]
    assert run_picker.short_names(left_out) == ["no privacy, without P-7", "no privacy, without 2 patients"]
    assert run_picker.short_names([plain, run(seed=1)]) == ["no privacy (seed 0)", "no privacy (seed 1)"]
    small = Run(plain.folder, RunSpec(model=ModelSpec(size="small")), plain.status, shipped=True)
    assert run_picker.short_names([plain, small]) == ["no privacy (tiny)", "no privacy (small)"]
    longer = Run(
        plain.folder, plain.spec.model_copy(update={"training": TrainingSpec(epochs=9)}), plain.status, shipped=True
    )
    alike = [plain, longer]
    assert run_picker.short_names(alike) == [f"no privacy ({one.id[-4:]})" for one in alike]


def test_a_name_that_its_box_may_cut_off_stands_below_it():
    """At 900 pixels a box beside a picture shows 13 letters; the style sheet hides the name where the box is wider."""
    name = "GPT-2 · ε = 8 per note · DP"
    found = linked_choice.whole_name(name)
    assert f"--letters: {len(name)}" in found and f">{name}<" in found
    assert not linked_choice.whole_name("BERT")


def test_a_whole_name_is_text_and_no_markup():
    name = f"<b>{'n' * 40}</b>"
    assert "&lt;b&gt;" in linked_choice.whole_name(name) and "<b>" not in linked_choice.whole_name(name)


@pytest.mark.parametrize("epsilon", [1.0, None])
def test_one_s_own_run_is_chosen_first_beside_its_counterpart(monkeypatch, epsilon):
    shipped = [
        run(),
        run(epsilon=8.0),
        run("distilbert"),
        run("distilbert", epsilon=8.0),
        run("distilbert", clip_norm=1.0),
    ]
    mine = run("distilbert", epsilon=epsilon, seed=5, finished=1.0)
    runs = [*shipped, mine]
    assert run_picker.opening_pair(runs) == run_picker.default_pair(runs) == (shipped[0], shipped[1])
    monkeypatch.setattr(run_picker.st, "session_state", {run_picker.OWN: mine.id})
    assert run_picker.opening_pair(runs) == ((mine, shipped[3]) if epsilon is None else (shipped[2], mine))
    assert run_picker.opening_pair(shipped) == (shipped[0], shipped[1]), "it is still being trained"


@pytest.mark.parametrize("epsilon", [1.0, None])
def test_a_pair_of_one_cohort_is_of_one_s_own_run_s_cohort(monkeypatch, epsilon):
    other = next(name for name, spec in CORPUS_PRESETS.items() if spec != CORPUS_PRESETS[OPENING])
    shipped = [run(), run(epsilon=8.0)]
    mine = run(epsilon=epsilon, hospital=other, seed=5, finished=1.0)
    counterpart = run(epsilon=None if epsilon else 8.0, hospital=other)
    pair = run_picker.opening_pair_of_one_cohort
    assert pair([]) == (None, None)
    assert pair([*shipped, mine]) == (shipped[0], shipped[1]), "no run was trained in this session"
    assert pair([shipped[0], run(epsilon=8.0, hospital=other)]) == (shipped[0], None)
    monkeypatch.setattr(run_picker.st, "session_state", {run_picker.OWN: mine.id})
    assert pair([*shipped, mine]) == (mine, None), "nothing of its cohort fits"
    assert pair([*shipped, mine, counterpart]) == ((counterpart, mine) if epsilon else (mine, counterpart))


@pytest.mark.parametrize(("epsilon", "side"), [(8.0, "right"), (None, "left")])
def test_a_link_opens_a_run_on_its_side(epsilon, side):
    spec = run(epsilon=epsilon).spec
    assert run_picker.side_of(spec, "gpt2-0") == {side: "gpt2-0"}


def test_a_training_that_was_submitted_here_opens_the_pages(data):
    runs = [one for one in Workspace(data, shared=()).runs() if one.has_model and not one.spec.is_base]
    mine = next(one for one in runs if one.spec.privacy.private)
    first = visit("patients").selectbox(key="pick_run").value
    assert first != mine.id
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT).run()
    page.session_state[run_picker.OWN] = mine.id
    page.switch_page("pages/patients.py").run()
    assert not page.exception and page.selectbox(key="pick_run").value == mine.id


def test_a_browser_that_draws_a_later_run_first_shows_the_chosen_model(data):
    """A browser shows the start value of the run that it draws first."""
    page = visit("playground")
    start = page.selectbox(key="pick_left").index
    assert start > 0, "the first option is also what a box without a start value shows"
    for chosen in (start, start, start + 1, start + 1):
        box = page.selectbox(key="pick_left")
        box.set_value(box.options[chosen] if chosen != box.index else box.value).run()
        assert not page.exception
        box = page.selectbox(key="pick_left")
        assert box.proto.default == box.index == chosen
