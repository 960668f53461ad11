"""The Membership page, driven without a browser, over runs that the real pipeline made."""

from __future__ import annotations

import math
import re
import shutil
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from core.attacks.battery import applicable
from core.attacks.membership.shadow_models import CAUGHT_COLUMNS
from core.attacks.membership.shadow_scores import ShadowScores
from core.common.errors import Cancelled
from core.common.formatting import REPRODUCIBLE
from core.evaluation.membership.curve import Caught, Ceiling
from core.evaluation.membership.lira_stability import stability
from core.evaluation.membership.overlap import overlap
from core.evaluation.membership.units import units
from core.pipeline.full_audit import audit
from core.runs.store import Workspace
from core.training.accounting.mechanism import Mechanism
from pages.parts.jobs.battery import LABEL
from pages.parts.membership import charts, sentences, views
from pages.parts.membership.methods import HOW
from pages.parts.membership.views import VIEWS
from tests.pages.visit import assert_asks_again, said, visit

opened = partial(visit, "membership")


@pytest.fixture(scope="module")
def audited(audited_with):
    """A data folder whose run without privacy had two more attacks, one of them white-box."""
    return audited_with("loss", "zlib", "attention")


def test_without_runs_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    assert any("Train one" in info.value for info in opened().info)


@pytest.mark.parametrize("view", list(VIEWS))
def test_the_quick_audit_is_enough_to_begin_with(data, view):
    app = opened(view=view)
    assert "Guess first." not in said(app), "an analyst comes to see results"
    assert app.get("plotly_chart") and app.dataframe and app.get("download_button")
    assert any(expander.label == "How is this computed?" for expander in app.expander)
    assert any(button.label.startswith(LABEL) for button in app.button) and "has had only the quick audit" in said(app)


def test_the_sentence_follows_the_threshold_and_counts_as_the_scores_do(data, smoke_specs):
    run = Workspace(data, shared=()).run(smoke_specs["plain"].run_id)
    scores = run.table("scores")
    scores = scores[scores["attack"] == "loss"]
    app = opened(view="Threshold", left=run.id, right=run.id)
    threshold = float(scores.loc[~scores["member"], "score"].max())
    app.slider[0].set_value(threshold).run()
    assert not app.exception
    reached = app.slider[0].value
    told = re.search(r"Catches (\d+) of (\d+) members' notes, accuses (\d+) of (\d+) held-out notes", said(app))
    says = scores["score"] >= reached
    expected = [says[scores["member"]].sum(), scores["member"].sum(), says[~scores["member"]].sum()]
    assert [int(number) for number in told.groups()[:3]] == expected
    assert int(told.group(4)) == (~scores["member"]).sum()


def test_patients_are_fewer_than_notes_and_a_promise_per_note_is_worth_less_for_them(data, smoke_specs):
    app = opened(left=smoke_specs["dp"].run_id, right=smoke_specs["plain"].run_id, level="patient")
    assert "has an ε per note. For the evaluated patient with the most notes (" in said(app)
    assert sum(REPRODUCIBLE in caption.value for caption in app.caption) == 1, "of the private run alone"
    patients = Workspace(data, shared=()).run(smoke_specs["dp"].run_id).table("scores").query("split == 'member'")
    app = opened(view="Threshold", level="patient")
    assert f"of {patients['patient_id'].nunique()} members, accuses" in said(app)


def test_admissions_are_offered_only_where_a_patient_has_several(monkeypatch, tmp_path, smoke_workspace, smoke_specs):
    data = tmp_path / "data"
    shutil.copytree(smoke_workspace, data)
    monkeypatch.setenv("PHILAB_DATA", str(data))
    run, other = (smoke_specs[name].run_id for name in ("plain", "dp"))
    path = data / "runs" / run / "tables" / "scores.parquet"
    scores = pd.read_parquet(path)
    scores.assign(admission_id=scores["patient_id"]).to_parquet(path)
    app = opened(left=run, right=other, level="admission")
    assert app.segmented_control(key="level").options == ["note", "admission", "patient"]
    assert app.session_state["level"] == "admission"
    app.selectbox(key="pick_right").set_value(run).run()
    assert not app.exception and app.segmented_control(key="level").options == ["note", "patient"]
    assert app.session_state["level"] == "sample"


def test_notes_under_a_promise_per_note_are_told_from_what_it_bounds(data, smoke_specs):
    runs = {"left": smoke_specs["dp"].run_id, "right": smoke_specs["plain"].run_id}
    for level, told in (("sample", True), ("patient", False)):
        captions = opened(level=level, **runs).caption
        assert any("does not contradict the guarantee" in caption.value for caption in captions) == told


def test_few_accusations_have_their_rate_or_say_that_there_are_too_few(data, smoke_specs):
    run = Workspace(data, shared=()).run(smoke_specs["plain"].run_id)
    app = opened(left=run.id, right=run.id)
    table = next(frame.value for frame in app.dataframe if "may accuse" in frame.value.columns)
    scores = run.table("scores").query("attack == 'loss'")
    members, others = (scores.loc[scores["member"] == flag, "score"].to_numpy() for flag in (True, False))
    for row in table.itertuples(index=False):
        allowed, tpr = row[2], row[4]
        if len(others) * allowed < 1:
            assert np.isnan(tpr) and "too few" in row[-1] and "too few" in said(app)
            continue
        rates = [((others >= cut).mean(), (members >= cut).mean()) for cut in scores["score"]]
        reached = max((pair for pair in rates if pair[0] <= allowed), key=lambda pair: pair[1], default=(0.0, 0.0))
        assert tpr == pytest.approx(reached[1])
    assert set(table["may accuse"]) == {0.1, 0.01, 0.001}


def test_the_guesses_do_not_stand_in_the_order_of_the_answer(audited, monkeypatch, smoke_specs):
    monkeypatch.setenv("PHILAB_DATA", str(audited))
    run = smoke_specs["plain"].run_id
    app = opened(view="All attacks", left=run, right=run, guess="1")
    offered = [button.label for button in app.button if button.label in ("loss", "zlib", "attention")]
    assert offered == ["loss", "zlib", "attention"], "the battery's order"


def test_a_full_audit_offers_its_attacks(audited, monkeypatch, smoke_specs):
    monkeypatch.setenv("PHILAB_DATA", str(audited))
    run = smoke_specs["plain"].run_id
    app = opened(view="All attacks", left=run, right=run)
    table = next(frame.value for frame in app.dataframe if "AUC" in frame.value.columns)
    assert set(table["attack"]) == {"loss", "zlib", "attention"}
    assert table.set_index("attack")["access"].to_dict()["attention"] == "white-box"
    possible = [one for one in applicable("gpt2") if "scores" in one.tables]
    told = f"3 of the full audit's {len(applicable('gpt2'))} attacks were run on “"
    assert told in said(app) and f"”, 3 of the {len(possible)} on membership among them." in said(app)
    told = next(frame.value for frame in app.dataframe if "what it does" in frame.value.columns)
    assert set(told["attack"]) == set(table["attack"]) and told["what it does"].str.endswith(".").all()


def test_an_audit_that_was_stopped_shows_what_it_has_found(smoke_workspace, smoke_specs, monkeypatch, tmp_path):
    root, run = tmp_path / "data", smoke_specs["plain"].run_id
    shutil.copytree(smoke_workspace, root)
    monkeypatch.setenv("PHILAB_DATA", str(root))
    view = partial(opened, left=run, right=run)
    few = "There are too few held-out notes to measure what"
    assert f"{few} “loss” catches" in said(view()), "kept while there was the loss alone"
    workspace, stages = Workspace(root, shared=()), []
    with pytest.raises(Cancelled):
        audit(
            workspace.run(run),
            workspace,
            attacks=["loss", "zlib"],
            on_event=lambda event: stages.append(event.get("stage")),
            should_stop=lambda: "figures" in stages,
        )
    assert workspace.audit(run).table("membership").empty and set(workspace.audit(run).files("scores")) >= {"zlib"}
    app = view()
    app.multiselect(key="attacks-ROC").set_value(["zlib"]).run()
    rates = next(frame.value for frame in app.dataframe if "may accuse" in frame.value.columns)
    assert set(rates["attack"]) == {"zlib"} and f"{few} “zlib” catches" in said(app)
    app = view(view="All attacks")
    table = next(frame.value for frame in app.dataframe if "AUC" in frame.value.columns)
    assert set(table["attack"]) == {"loss", "zlib"}


def test_rates_without_a_figure_are_left_out():
    rows = [("a", "loss", 0.1, 0.1, 0.2, 0.1, 0.3, ""), ("a", "loss", 0.01, 0.01, 0.05, 0.0, 0.1, "")]
    columns = ["run", "attack", "may accuse", "accuses", "catches", "low", "high", "note"]
    told = sentences.fewer_accused(pd.DataFrame(rows, columns=columns), "a", "loss", "sample")
    assert told.replace("\u00a0", " ") == (
        "If fewer held-out notes may be accused by mistake, “loss” catches, with “a”: at 1 %, 5.0 % (95 % interval "
        "0 % to 10 %)."
    )
    assert sentences.fewer_accused(pd.DataFrame(columns=columns), "a", "loss", "sample") == ""


def test_the_headline_has_every_model_that_the_picture_shows():
    rows = {"a": (0.29, 0.27, 0.32), "b": (0.11, 0.10, 0.13)}
    curves = {
        name: pd.DataFrame({"fpr": [0.0, 0.1, 1.0], "tpr": [0.0, tpr, 1.0], "low": [0, low, 1], "high": [0, high, 1]})
        for name, (tpr, low, high) in rows.items()
    }
    told = sentences.roc_sentence(curves, "loss", "sample").replace("\u00a0", " ")
    assert told.startswith("If 10 % of held-out notes may be accused by mistake, the attack “loss” catches 29 % (95 %")
    assert "27 % to 32 %) of members' notes with “a” and 11 % (95 % interval 10 % to 13 %) with “b”; random" in told
    assert told.endswith("with “b”; random guessing would catch 10 %.")


@pytest.mark.parametrize("view", list(VIEWS))
def test_another_model_is_another_question(data, smoke_specs, view):
    app = opened(view=view, left=smoke_specs["plain"].run_id, right=smoke_specs["plain"].run_id, guess="1")
    assert not app.get("plotly_chart"), "nothing is given away before a guess"
    assert_asks_again(app, smoke_specs["dp"].run_id)


def test_the_roc_question_is_about_the_curve_that_answers_it(audited, monkeypatch, smoke_specs):
    monkeypatch.setenv("PHILAB_DATA", str(audited))
    app = opened(left=smoke_specs["dp"].run_id, right=smoke_specs["plain"].run_id)
    app.multiselect(key="attacks-ROC").set_value(["zlib"]).run()
    answer = said(app)
    assert "the attack “zlib” catches" in answer, "the first model has not had it"
    assert "of members' notes with “no privacy”; random guessing would catch" in answer


def test_the_surest_attack_is_told_from_the_one_with_the_highest_value():
    """1.000 with a lower end of .99 is less sure than .999 with .998, widened alike: both are named."""
    rows = [("a", "lira", 1.0, 0.99, 1.0), ("a", "min-k++ 20 %", 0.999, 0.998, 1.0), ("a", "loss", 0.9, 0.8, 0.95)]
    found = pd.DataFrame(rows, columns=["run", "attack", "value", "low", "high"])
    told = sentences.surest_sentence(found).replace("\u00a0", " ")
    assert told.startswith("Best here by the lower end of its interval: min-k++ 20 % on “a”, AUC 0.999 (95 % interval")
    assert told.endswith("corrected for choosing among 3) (highest AUC: lira, 1.000).")
    two = pd.concat([found.tail(2), found.head(1).assign(run="b")], ignore_index=True)
    assert sentences.surest_sentence(two).endswith("(highest AUC: lira on “b”, 1.000).")
    assert "highest AUC" not in sentences.surest_sentence(found.tail(2)), "the surest is the highest"
    assert sentences.surest_sentence(found.tail(1)).startswith("loss on “a”, AUC 0.900 (")
    alone = sentences.surest_sentence(found.assign(low=math.nan, high=math.nan))
    assert alone == "Highest here: lira on “a”, AUC 1.000 (without an interval).", "nothing to correct"


def test_the_strongest_of_all_attacks_is_named_beside_the_one_in_the_picture(audited, monkeypatch, smoke_specs):
    """The loss opens the picture. An attack that is not chosen there may be stronger; a single one has no rival."""
    monkeypatch.setenv("PHILAB_DATA", str(audited))
    app = opened(left=smoke_specs["plain"].run_id, right=smoke_specs["dp"].run_id)
    assert app.multiselect(key="attacks-ROC").value == ["loss"]
    beside = " ".join(one.value for one in app.caption)
    assert beside.count("Strongest of 3 attacks on “no privacy” by note: “") == 1
    assert beside.count("Strongest of") == 1, "the private run had the loss attack alone"
    assert "Intervals allow for the choice; 0.5 is random guessing." in beside
    rows = [("loss", 0.51, 0.49, 0.53), ("rmia", 0.6, 0.56, 0.64), ("few", 0.7, 0.4, 0.9)]
    found = pd.DataFrame(rows, columns=["attack", "value", "low", "high"])
    told = sentences.strongest_sentence(found, "a", "patient").replace("\u00a0", " ")
    assert told.startswith("Strongest of 3 attacks on “a” by patient: “rmia”, AUC 0.600 (95 % interval 0.55")
    assert sentences.strongest_sentence(found.head(1), "a", "patient") == ""


def test_few_accused_are_counted_and_no_leakage_has_no_sign():
    """5 of 10 and 5 of 10 caught differ by 0; 1 − 0 = 1; 45 of 90 accused are half."""
    none = sentences.leakage_sentence(Caught(5, 10, 5, 10), "patient").replace("\u00a0", " ")
    assert "That is 50 % minus 50 %: a privacy leakage of 0.000. Random" in none
    assert none.endswith("5 of 10 accused patients are members; members are 50 % of all evaluated patients.")
    slight = sentences.leakage_sentence(Caught(1, 10_000, 1, 9_999), "sample")
    assert "leakage of 0.000." in slight and "−0.000" not in slight and "+0.000" not in slight
    one = sentences.leakage_sentence(Caught(1, 10, 0, 10), "patient")
    assert "leakage of +0.100." in one and "The only accused patient is a member; members are 50" in one
    wrong = sentences.leakage_sentence(Caught(0, 10, 1, 10), "sample")
    assert (
        "leakage of −0.100." in wrong and "The only accused note is not a member's note; members' notes are 50" in wrong
    )
    many = sentences.leakage_sentence(Caught(45, 100, 45, 300), "sample").replace("\u00a0", " ")
    assert many.endswith(
        "Of 90 accused notes, 50 % are members' notes; members' notes are 25 % of all evaluated notes."
    )
    assert "accused" not in sentences.leakage_sentence(Caught(0, 10, 0, 10), "patient")


# Parts ---------------------------------------------------------------------------------------------------------------


def frame() -> pd.DataFrame:
    rows = [(f"n{i}", f"p{i // 2}", i < 8, float(i % 5)) for i in range(16)]
    return pd.DataFrame(rows, columns=["note_id", "patient_id", "member", "score"]).assign(
        admission_id=lambda t: t["note_id"], tokens=10, split=lambda t: np.where(t["member"], "member", "heldout")
    )


def test_who_is_caught_is_counted_by_patient_beside_those_accused_by_mistake(audited, monkeypatch, smoke_specs):
    monkeypatch.setenv("PHILAB_DATA", str(audited))
    run = smoke_specs["plain"].run_id
    app = opened(view=views.OVERLAP, left=run, right=run)
    assert app.multiselect(key=f"attacks-{views.OVERLAP}-loss-zlib").value == ["loss", "zlib"], (
        "attention scored only some"
    )
    scores = Workspace(audited, shared=()).audit(run).table("scores")
    found = overlap(scores, ["loss", "zlib"])
    some, both = (found.at_least(least, member=True)[0] for least in (1, 2))
    others, members = int((~found.member).sum()), int(found.member.sum())
    answer = said(app)
    assert f"At least one of 2 attacks accuses {some} of {members} members" in answer
    assert f"All 2 accuse {both} of {members} members" in answer and f"of {others} held-out patients" in answer
    assert "The intervals are for attacks that each accuse 10\u00a0% of the held-out patients." in answer
    told = [one.value for one in app.caption if "Left out, since they scored only some of the patients" in one.value]
    assert len(told) == 1 and told[0].endswith("patients: attention.")
    table = next(one.value for one in app.dataframe if "group" in one.value)
    assert len(table) == members + others and table["attacks"].max() <= 2


def test_the_axes_are_kept_in_the_link(data, smoke_specs):
    app = opened(left=smoke_specs["plain"].run_id, axes="log")
    assert app.segmented_control(key="axes").value == "log"


def test_one_attack_has_no_interval_for_those_that_its_threshold_was_set_on():
    """Of 20 held-out patients, 10 % are 2, whatever the scores are."""
    rows = [(f"n{i}", f"p{i:02}", "member" if i < 20 else "heldout", float(i % 20)) for i in range(40)]
    table = pd.DataFrame(rows, columns=["note_id", "patient_id", "split", "score"])
    one = overlap(table.assign(attack="loss"), ["loss"])
    told = views._by_at_least(one, 1).replace("\u00a0", " ")
    assert told.startswith("2 of 20 members (10 %, 95 % interval ")
    assert told.endswith(" and 2 of 20 held-out patients (10 %)")
    both = [table.assign(attack=name, score=sign * table["score"]) for name, sign in (("loss", 1), ("zlib", -1))]
    told = views._by_at_least(overlap(pd.concat(both), ["loss", "zlib"]), 1).replace("\u00a0", " ")
    assert " and 4 of 20 held-out patients (20 %, 95 % interval " in told


def test_lira_says_how_often_a_patient_is_caught_over_its_models(audited, monkeypatch, smoke_specs):
    rows = [("P0001", 7, 7, 3, 0), ("P0002", 7, 0, 3, 1), ("P0003", 7, 6, 3, 0)]
    made = pd.DataFrame(rows, columns=list(CAUGHT_COLUMNS)).astype(CAUGHT_COLUMNS)
    monkeypatch.setenv("PHILAB_DATA", str(audited))
    monkeypatch.setattr(views.data, "shadow_patients", lambda run: made)
    app = opened(view=views.OVERLAP, left=smoke_specs["plain"].run_id, right=smoke_specs["plain"].run_id)
    assert "has 10 models" in said(app) and "1 of 3 patients are caught by at least 90" in said(app)
    assert "and 1 by none" in said(app)


def test_lira_s_stability_is_computed_on_request(audited, monkeypatch, smoke_specs):
    rows = [("P0001", 7, 7, 3, 0), ("P0002", 7, 0, 3, 1), ("P0003", 7, 6, 3, 0)]
    made = pd.DataFrame(rows, columns=list(CAUGHT_COLUMNS)).astype(CAUGHT_COLUMNS)
    run = Workspace(audited, shared=()).run(smoke_specs["plain"].run_id)
    losses = Workspace(audited, shared=()).audit(run.id).table_of("loss", "scores")
    notes = losses[losses["split"] != "population"].reset_index(drop=True)
    rng = np.random.default_rng(0)
    patients = notes["patient_id"].unique()
    read = pd.DataFrame(rng.random((10, len(patients))) < 0.7, columns=patients)[notes["patient_id"]].to_numpy()
    likelihoods = rng.normal(-3.0, 0.2, read.shape)
    own = notes["score"].to_numpy(dtype=float)
    kept = stability(notes, {run.id: (0, own)}, ShadowScores(likelihoods, read), resamples=20)
    monkeypatch.setenv("PHILAB_DATA", str(audited))
    monkeypatch.setattr(views.data, "shadow_patients", lambda run: made)
    monkeypatch.setattr(views.data, "stability_of", lambda run: kept)
    app = opened(view=views.OVERLAP, left=run.id, right=run.id)
    assert "with all 10" not in said(app), "nothing before it is asked for"
    app.button(key="lira-stability").click().run()
    assert not app.exception and "AUC" in said(app) and "with all 10" in said(app)
    shown = [frame.value for frame in app.dataframe]
    columns = list(kept.by_number.columns)
    assert any(list(frame.columns) == columns and len(frame) == len(kept.by_number) for frame in shown)


def test_every_note_is_in_the_histogram():
    judged = units(frame())
    figure = charts.histogram(judged, 2.0)
    assert sum(int(count) for bar in figure.data for count, _ in bar.customdata) == len(judged.score)
    assert all(abs(sum(bar.y) - 1) < 1e-12 for bar in figure.data)


def test_a_log_axis_begins_at_the_height_of_the_curve_there():
    line = pd.DataFrame({"fpr": [0.0, 0.0002, 0.0006, 0.5, 1.0], "tpr": [0.1, 0.2, 0.3, 0.9, 1.0]})
    assert charts._from_smallest_rate(line).to_numpy().tolist() == [[1e-3, 0.3], [0.5, 0.9], [1.0, 1.0]]


@pytest.mark.parametrize("log", [False, True])
def test_the_ceiling_is_drawn_for_the_runs_that_promise(log):
    table = pd.DataFrame({"fpr": [0.0, 0.5, 1.0], "tpr": [0.1, 0.6, 1.0], "low": [0, 0.5, 1], "high": [0.2, 0.7, 1]})
    curves = {(0, "plain", "loss"): table, (1, "dp", "loss"): table}
    figure = charts.roc(curves, curves, {(1, "dp"): Ceiling(1.0, 1e-5, 1, 0.4)}, log=log)
    allowed = [trace for trace in figure.data if trace.name and "guarantee" in trace.name]
    assert [trace.name for trace in allowed] == ["dp: what the guarantee allows"]
    assert (np.asarray(allowed[0].y) >= np.asarray(allowed[0].x) - 1e-12).all()
    assert figure.layout.xaxis.type == ("log" if log else "linear")


def test_every_view_says_how_it_is_computed():
    assert set(HOW) == {"roc", "threshold", "attacks", "overlap"} and len(VIEWS) == 4


def test_what_a_patients_notes_are_promised_is_rounded_up_and_said_to_be_empty():
    """At ε = 124 more than 99.9999 of 100 attackers may be right; at ε = 2, e²/(1 + e²) = .881, rounded up."""
    told = sentences.for_a_patient("x", Ceiling(math.inf, 1e-5, 7, 123.44))
    assert told == (
        "“x” has an ε per note. For the evaluated patient with the most notes (7) this means ε = 124 at the same δ: in "
        "practice nothing is promised to them."
    )
    assert "this means no finite ε: in practice nothing" in sentences.for_a_patient(
        "x", Ceiling(math.inf, 1e-5, 7, math.inf)
    )
    assert "ε = 2 at the same δ = 10⁻⁵: on average at most 89" in sentences.for_a_patient(
        "x", Ceiling(5.0, 1e-5, 7, 2.0)
    )


def test_the_line_of_two_changes_says_its_epsilon():
    told = sentences.for_an_exchange("x", Ceiling(2.2001, 1e-5, 1, 1.0))
    assert told.endswith("The line of “x” is that of two changes: ε = 2.21 at the same δ.")
    assert sentences.for_an_exchange("x", Ceiling(math.inf, 1e-5, 7, 900.0)).endswith(
        "no finite ε, so it rules nothing out."
    )


def test_the_ceiling_bounds_the_curves_of_all_chosen_attacks(monkeypatch):
    """An attack on a sample of the patients comes first: the patient with most notes is not in it."""
    few, all_notes = frame(), pd.concat([frame(), frame().head(1).assign(note_id="n99")], ignore_index=True)
    judged = {"neighbourhood": units(few, "patient"), "loss": units(all_notes, "patient")}
    monkeypatch.setattr(views.data, "units_of", lambda run, attack, level, length: judged[attack])
    mechanism = Mechanism(unit="note", noise_multiplier=2.0, sample_rate=0.1, steps=10, delta=1e-6, max_grad_norm=1.0)
    run = SimpleNamespace(privacy=mechanism)
    choice = views.Choice({"dp": run}, ["neighbourhood", "loss"], "patient", "all", None)
    assert views._ceilings(choice)[0, "dp"].group == 3
