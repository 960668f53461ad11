"""Families of runs are chosen by an id that stays, under names that differ."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from core.evaluation.sweep.sweeps import sweeps_of
from core.evaluation.wording import perplexity_text
from core.runs.events import Status
from core.runs.run import Run
from core.spec import SHIPPED_BASES, CorpusSpec, DefenceSpec, ModelSpec, PrivacySpec, RunSpec, TrainingSpec
from pages.parts.pickers import sweep_picker
from pages.parts.pickers.sweep_picker import curve_name, distinct_names, family_ids, setting_name
from tests.pages.visit import visit


def run(*, epsilon: float | None = 8.0, corpus_seed: int = 0, sigma=None, defence=None, **training) -> Run:
    spec = RunSpec(
        corpus=CorpusSpec(patients=100, seed=corpus_seed),
        privacy=PrivacySpec(target_epsilon=epsilon, noise_multiplier=sigma),
        training=TrainingSpec(**training),
        defence=defence,
    )
    return Run(Path("runs") / spec.run_id, spec, Status(state="done"), shipped=False)


def clone(data: Path, spec: RunSpec, copied: RunSpec, *, perplexity: float) -> None:
    """A finished run in the data folder: `copied`'s files under `spec`, with another perplexity."""
    folder = data / "runs" / spec.run_id
    shutil.copytree(data / "runs" / copied.run_id, folder)
    (folder / "spec.json").write_text(spec.model_dump_json())
    path = folder / "tables" / "metrics.parquet"
    table = pd.read_parquet(path)
    own = (table["metric"] == "perplexity_heldout") & (table["arm"] == "run")
    table.loc[own, ["value", "low", "high"]] = [perplexity, perplexity - 1, perplexity + 1]
    table.to_parquet(path)


@pytest.fixture
def hospitals(monkeypatch, smoke_workspace, smoke_specs, tmp_path) -> tuple[Path, list[RunSpec]]:
    """A data folder with one run of each of three hospitals of equal size, and their specs."""
    data = tmp_path / "data"
    shutil.copytree(smoke_workspace, data)
    monkeypatch.setenv("PHILAB_DATA", str(data))
    dp = smoke_specs["dp"]
    specs = [dp.model_copy(update={"corpus": dp.corpus.model_copy(update={"seed": seed})}) for seed in (1, 2, 3)]
    for number, spec in enumerate(specs, start=1):
        clone(data, spec, dp, perplexity=100.0 + number)
        clone(data, spec.base_spec(), smoke_specs["base"], perplexity=200.0)
    for name in ("base", "plain", "dp"):
        shutil.rmtree(data / "runs" / smoke_specs[name].run_id)
    return data, specs


def usefulness(app) -> str:
    return next(element.value for element in app.markdown if element.value.startswith("**Usefulness:**"))


def family_id(spec: RunSpec) -> str:
    return sweeps_of([Run(Path(spec.run_id), spec, Status(state="done"), shipped=False)])[0].id


def test_equal_names_are_told_apart_by_batch_then_by_cohort():
    found = sweeps_of([run(corpus_seed=0), run(corpus_seed=1), run(corpus_seed=2), run(corpus_seed=2, batch_size=64)])
    names = distinct_names(found, curve_name)
    assert len(set(names.values())) == 4
    assert all(f"cohort {sweep.corpus.digest()[:6]}" in names[sweep.id] for sweep in found[:2])
    assert sum("batch 64" in name for name in names.values()) == 1
    assert len(set(distinct_names(found[:3], setting_name).values())) == 3
    (alone,) = distinct_names(found[:1], curve_name).values()
    assert alone == curve_name(found[0]), "a name that is alone stays as short as it is"


def test_sweeps_of_one_hospital_are_told_apart_by_their_public_base_in_words():
    specs = [one.spec.model_copy(update={"model": ModelSpec(base=base)}) for base in SHIPPED_BASES for one in [run()]]
    found = sweeps_of([Run(Path(spec.run_id), spec, Status(state="done"), shipped=False) for spec in specs])
    names = distinct_names(found, setting_name)
    name = setting_name(found[0])
    assert sorted(names.values()) == [f"{name} · base: abstracts", f"{name} · base: clinical"]


def test_what_no_word_tells_apart_is_told_by_id():
    found = sweeps_of([run(learning_rate=1e-4), run(learning_rate=2e-4)])
    assert sorted(distinct_names(found, curve_name).values()) == sorted(
        f"{curve_name(one)} · {one.id}" for one in found
    )


def test_a_family_keeps_its_id_when_further_runs_finish():
    (before,) = sweeps_of([run()])
    (after,) = sweeps_of([run(), run(epsilon=2.0), run(seed=1), run(epsilon=None, epochs=5)])
    assert before.id == after.id and (len(before.run_ids), len(after.run_ids)) == (1, 4)
    assert curve_name(before) == curve_name(after), "browsers send the label of the page before"


def test_a_run_that_is_on_no_curve_has_no_family():
    on, raw = run(), run(epsilon=None, sigma=1.0)
    defended = run(epsilon=None, defence=DefenceSpec(deduplicate=True))
    assert set(family_ids([on, raw, defended])) == {on.id}


def test_a_run_on_two_curves_opens_the_one_with_most_runs():
    plain, rest = run(epsilon=None), [run(), run(seed=1), run(batch_size=64)]
    found = sweeps_of([*rest, plain])
    assert len(found) == 2 and family_ids([*rest, plain])[plain.id] == found[0].id


def test_each_of_three_hospitals_of_one_size_draws_its_own_figures(hospitals):
    _, specs = hospitals
    app = visit("tradeoff", at="8")
    assert len(set(app.selectbox(key="runs-gpt2").options)) == 3
    for number, spec in enumerate(specs, start=1):
        app.selectbox(key="runs-gpt2").set_value(family_id(spec)).run()
        assert not app.exception
        assert f"perplexity {perplexity_text(100.0 + number)}" in usefulness(app)


def test_the_choice_stays_when_one_of_its_runs_finishes(hospitals):
    data, specs = hospitals
    app = visit("tradeoff", at="8")
    other, chosen = [spec for spec in specs if family_id(spec) != app.selectbox(key="runs-gpt2").value]
    app.selectbox(key="runs-gpt2").set_value(family_id(chosen)).run()
    for spec in (other, chosen):  # the first of both becomes the default
        seeded = spec.training.model_copy(update={"seed": 1})
        clone(data, spec.model_copy(update={"training": seeded}), spec, perplexity=90.0)
    app.run()
    assert not app.exception
    assert app.selectbox(key="runs-gpt2").value == family_id(chosen)
    app.run()
    assert app.query_params["family"] == [family_id(chosen)] or app.query_params["family"] == family_id(chosen)


def unknown(app) -> list[str]:
    return [one.value.replace("\\", "") for one in app.warning if "not offered here" in one.value]


def test_a_link_opens_its_family(hospitals):
    _, specs = hospitals
    for spec in specs:
        app = visit("tradeoff", family=family_id(spec))
        assert app.selectbox(key="runs-gpt2").value == family_id(spec) and not unknown(app)
        of_another_recipe = f"{family_id(spec).rpartition('-')[0]}-plain"
        app = visit("tradeoff", family=of_another_recipe)
        assert app.selectbox(key="runs-gpt2").value == family_id(spec) and not unknown(app)


@pytest.mark.parametrize(("page", "box"), [("tradeoff", "runs-gpt2"), ("defences", "whose")])
def test_an_unknown_family_in_a_link_is_said_until_another_one_is_chosen(hospitals, page, box):
    _, specs = hospitals
    app = visit(page, family="gpt2-<b>gone</b>")
    (told,) = unknown(app)
    assert "The hospital in this link, “gpt2-<b>gone</b>”, is not offered here" in told, "as it was typed, and no tag"
    assert "Shown instead: GPT-2" in told
    app.run()
    assert unknown(app) == [told]
    other = next(spec for spec in specs if family_id(spec) != app.selectbox(key=box).value)
    app.selectbox(key=box).set_value(family_id(other)).run()
    assert not app.exception and not unknown(app)


def test_an_unknown_family_is_said_no_more_once_another_size_is_chosen(monkeypatch):
    found = sweeps_of([run(corpus_seed=0), run(corpus_seed=1)])
    said, kept = [], SimpleNamespace(session_state={}, query_params={"family": "gpt2-gone-1"})
    monkeypatch.setattr(sweep_picker, "st", kept)
    monkeypatch.setattr(sweep_picker.linked_choice, "say_missing", lambda *_, **__: said.append(1))
    monkeypatch.setattr(sweep_picker.shell, "same_page", lambda: True)
    for at in (0, 0, 1, 0):
        sweep_picker.say_unknown("family", found, found[at], "")
    assert len(said) == 2 and not kept.query_params


def test_train_links_to_the_curve_of_a_run_and_only_if_it_has_one(hospitals):
    data, specs = hospitals
    raw = specs[0].model_copy(update={"privacy": PrivacySpec(noise_multiplier=1.0)})
    clone(data, raw, specs[0], perplexity=90.0)
    links = [link.proto for link in visit("train").get("page_link") if link.proto.label == "Open in ε trade-off"]
    assert len(links) == len(specs), "three of four finished runs"
    assert {link.query_string.partition("family=")[2] for link in links} == set(map(family_id, specs))


def test_every_hospital_of_one_size_can_be_chosen_on_defences(hospitals):
    _, specs = hospitals
    app = visit("defences")
    assert len(set(app.selectbox(key="whose").options)) == 3
    for number, spec in enumerate(specs, start=1):
        app.selectbox(key="whose").set_value(family_id(spec)).run()
        assert not app.exception
        shown = app.dataframe[0].value.set_index("Defence")["Perplexity"]
        assert shown["DP per note, ε = 8"].startswith(perplexity_text(100.0 + number))
