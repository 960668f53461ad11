"""The Canaries page, driven without a browser, over runs that the real pipeline made."""

from __future__ import annotations

import dataclasses
import re
from functools import partial

import pandas as pd
import pytest

from core.common.formatting import REPRODUCIBLE, score_text
from core.evaluation.memorisation.canaries import BLIND, exposure_by_copies, race
from core.evaluation.memorisation.risk import CALIBRATED, OLD, SCORE, WEIGHTS
from core.evaluation.memorisation.verbatim import memorised_rates
from core.runs.store import Workspace
from pages.parts.canaries import sentences
from pages.parts.canaries.charts import bounds, exposure, leak_curve, risk, verbatim
from pages.parts.canaries.charts import race as race_chart
from pages.parts.canaries.generated_text import completed, predictor_rows, ranked_sentence
from pages.parts.canaries.methods import HOW
from pages.parts.canaries.views import VIEWS, without
from pages.parts.jobs.battery import LABEL
from tests.pages.visit import assert_asks_again, said, visit

opened = partial(visit, "canaries")


@pytest.fixture(scope="module")
def audited(audited_with):
    """A data folder whose run without privacy had the prefix attack."""
    return audited_with("prefix", "canary exposure")


def test_without_runs_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    assert any("Train one" in info.value for info in opened().info)


@pytest.mark.parametrize("view", ["Copies", "Epochs", "Questions", "Guarantee", "Risk score"])
def test_the_quick_audit_is_enough_for_every_view_but_one(data, view):
    app = opened(view=view)
    assert "Guess first." not in said(app)
    assert app.get("plotly_chart") and app.dataframe and app.get("download_button")
    assert any(expander.label == "How is this computed?" for expander in app.expander)


def test_a_guess_is_told_back_beside_the_answer(data):
    app = opened(view="Copies", guess="1")
    assert not app.get("plotly_chart"), "nothing is given away before a guess"
    next(button for button in app.button if button.label == "4").click().run()
    assert "You guessed “4”." in said(app)


@pytest.mark.parametrize("view", ["Copies", "Epochs", "Questions", "Risk score"])
def test_another_model_is_another_question(data, smoke_specs, view):
    app = opened(view=view, left=smoke_specs["plain"].run_id, right=smoke_specs["plain"].run_id, guess="1")
    assert_asks_again(app, smoke_specs["dp"].run_id)


def test_the_bars_of_the_risk_score_say_what_was_counted():
    parts = [(version, part, 1.0, 0.5, 0.4, 0.6) for version in (OLD, CALIBRATED) for part in (*WEIGHTS, SCORE)]
    table = pd.DataFrame(parts, columns=["version", "part", "weight", "value", "low", "high"])
    labels = list(risk({"a": table}).data[0].y)
    assert labels == ["a<br>as published,<br>without controls", "a<br>calibrated:<br>controls subtracted"]


def test_risk_scores_of_different_parts_are_not_compared(audited, monkeypatch, smoke_specs):
    monkeypatch.setenv("PHILAB_DATA", str(audited))
    app = opened(view="Risk score", left=smoke_specs["plain"].run_id, right=smoke_specs["dp"].run_id)
    told = "\n".join(info.value for info in app.info)
    assert "Do not compare" in told and "“ε = 8 per note · DP” has no part “word for word”" in told
    assert "“no privacy” has no part" not in told, "the full audit gave it that part"
    assert "Guess first." not in said(app) and " → " not in said(app)
    table = next(frame.value for frame in app.dataframe if "weight" in frame.value.columns)
    assert table.loc[table["part"] == "memorisation", "run"].unique().tolist() == ["no privacy"]
    assert "scaled up" in told and not any("scaled up" in caption.value for caption in app.caption), "said once"


def test_risk_scores_of_the_same_parts_are_compared(data, smoke_specs):
    app = opened(view="Risk score", left=smoke_specs["plain"].run_id, right=smoke_specs["dp"].run_id)
    assert re.search(r"The published score, without controls, is \d\.\d\d for “.+” and \d\.\d\d for “.+”;", said(app))
    assert "it checks each text for a single patient and so misses most leaks" in said(app), (
        "so it may be the lower one"
    )
    assert not any("Do not compare" in info.value for info in app.info)
    assert any("“no privacy” has no part" in caption.value for caption in app.caption)


def test_the_fold_of_the_risk_score_has_the_names_of_its_chart():
    for name in ("**As published**", "**Calibrated**", "word for\nword"):
        assert name in HOW["risk"]
    assert "exact" not in HOW["risk"] and "**Old**" not in HOW["risk"]


def test_twelve_right_guesses_are_an_example_and_the_audit_s_own_are_named_after_it(data, smoke_specs):
    told = said(opened(view="Guarantee", left=smoke_specs["dp"].run_id))
    assert "so unlikely at a small ε that they would prove ε ≥ " in told
    row = {"evidence": sentences.ONE_RUN, "tp": 6, "fn": 1, "fp": 0, "tn": 5, "trials": 12, "ceiling": 1.25}
    fixed = sentences._fixed(pd.Series(row | {"correct": 11}), "note")
    assert "12 canaries of one note each and here guessed 11 correctly, not all 12. It could" in fixed
    assert "here guessed 12 correctly. It could" in sentences._fixed(pd.Series(row | {"correct": 12}), "note")
    few = sentences._fixed(pd.Series(row | {"correct": 12, "ceiling": 0.0}), "note")
    assert few.endswith("It could have proved nothing."), "no bound is no ε ≥ 0"


def test_further_audits_are_told_in_one_or_several():
    both = pd.DataFrame({"epsilon": [0.0, 0.417], "ceiling": [0.6, 1.2]})
    assert sentences._further(both) == (
        "Of 2 further audits, which hold jointly at another 95\u00a0%, the highest proves ε ≥ 0.417 (it could prove at "
        "most 1.2)."
    )
    for epsilon, proved in ((0.0, "nothing"), (0.417, "ε ≥ 0.417")):
        assert sentences._further(pd.DataFrame({"epsilon": [epsilon], "ceiling": [1.2]})) == (
            f"A further audit, which holds at another 95\u00a0%, proves {proved} (it could prove at most 1.2)."
        )


def test_the_race_names_the_most_copies_and_that_a_line_is_one_canary(data, smoke_specs):
    ends = {1: (0.8, 2.4), 8: (0.3, 1.4), 0: (0.9, 0.7)}
    rows = [(epoch, copies, ends[copies][epoch - 1]) for epoch in (1, 2) for copies in ends]
    table = pd.DataFrame(rows, columns=["epoch", "copies", "exposure"])
    assert sentences.race_answer("a", table) == (
        "**a**: the canary with 1 copy has 0.8 bits after the first epoch and 2.4 after the last; the one with 8 "
        "copies ends at 1.4; the one never planted ends at 0.7."
    )
    few = sentences.race_answer("a", table[table["copies"] == 8])
    assert few == "**a**: the canary with 8 copies has 0.3 bits after the first epoch and 1.4 after the last."
    captions = opened(view="Epochs", left=smoke_specs["plain"].run_id).caption
    assert any("Each line is a single canary, so it is noisy" in one.value for one in captions)


def test_without_an_epoch_the_race_says_of_how_many_models(data, smoke_specs):
    base = smoke_specs["base"].run_id
    infos = [info.value for info in opened(view="Epochs", left=base, right=base).info]
    assert any(info.startswith("This model was not trained for an epoch") for info in infos)


def test_the_guarantee_tells_what_could_not_be_proved(data, smoke_specs):
    app = opened(view="Guarantee", left=smoke_specs["dp"].run_id, right=smoke_specs["plain"].run_id)
    told = said(app)
    assert "ε is 8 by accounting" in told and "No audit in this chart could have contradicted" in told
    assert "nothing limits ε" in told
    assert sum(REPRODUCIBLE in caption.value for caption in app.caption) == 1, "of the private run alone"
    assert "The audit fixed beforehand had" in told
    assert "A further audit, which holds at another 95\u00a0%, proves" in told
    assert not app.error
    table = app.dataframe[0].value
    assert {"audit", "epsilon", "ceiling", "promised", "alarm", "group"} <= set(table.columns)
    assert (table["epsilon"] <= table["ceiling"] + 1e-6).all()


def test_without_a_long_note_of_a_held_out_patient_there_is_no_control():
    asked = pd.DataFrame({"note_id": ["a", "b"], "patient_id": ["P1", "P2"], "split": "member", "prefix_tokens": 32})
    table = memorised_rates(asked.assign(model="target", matched_tokens=[9, 16], verbatim=[False, True]))
    assert completed(table) == (
        "completed word for word 1 of 2 notes of training patients (50\u00a0%, 95\u00a0% interval 0\u00a0% to "
        "100\u00a0%). No note of held-out patients is long enough, so there is no control."
    )
    other = memorised_rates(asked.assign(model="target", split="heldout", matched_tokens=9, verbatim=False))
    both = pd.concat([table, other], ignore_index=True)
    assert ", and 0 of 2 notes of held-out patients (0\u00a0%, 95\u00a0% interval 0\u00a0% to 66\u00a0%)." in completed(
        both
    )


def test_word_for_word_says_how_to_get_it(data, smoke_specs):
    app = opened(view="Word for word", left=smoke_specs["plain"].run_id)
    assert any("has not been run on" in info.value for info in app.info)
    assert any(button.label.startswith(LABEL) for button in app.button)


def test_word_for_word_shows_rates_controls_and_notes(audited, monkeypatch, smoke_specs):
    monkeypatch.setenv("PHILAB_DATA", str(audited))
    app = opened(view="Word for word", left=smoke_specs["plain"].run_id)
    assert (
        "completed word for word" in said(app)
        and "notes of training patients" in said(app)
        and "notes of held-out patients" in said(app)
    )
    assert {"arm", "prefix_tokens", "verbatim", "low", "high"} <= set(app.dataframe[0].value.columns)
    assert any('class="phi-text"' in block.proto.body for block in app.get("html"))


def test_a_fitted_curve_is_offered_where_both_runs_have_one(audited, monkeypatch, smoke_specs):
    monkeypatch.setenv("PHILAB_DATA", str(audited))
    both = smoke_specs["plain"].run_id
    app = opened(view="Copies", left=both, right=both)
    assert "skew_exposure" not in app.dataframe[1].value.columns
    app.segmented_control(key="measure").set_value("fitted curve").run()
    assert not app.exception
    assert "skew_exposure" in app.dataframe[1].value.columns


# Parts ---------------------------------------------------------------------------------------------------------------


def test_notes_are_escaped_and_marked():
    text = "<b>Patient</b>: <script>alert(1)</script> & more"
    shown = sentences.note_html(text, 16, 41)
    assert "<script>" not in shown and "&lt;script&gt;" in shown and "&amp; more" in shown
    assert shown.count("<mark") == 1 and "word for word" in shown
    assert "<mark" not in sentences.note_html(text, 9, 9)


def test_every_view_says_how_it_is_computed():
    assert len(VIEWS) == len(HOW) + 1, "the word list has its own fold (pages/parts/canaries/word_list.py)"
    for text in HOW.values():
        assert any(word in text for word in ("20", "row P", "as above")), "a paper, a row of one, or the view before it"


def test_exposure_by_copies_by_hand(smoke_workspace, smoke_specs):
    table = Workspace(smoke_workspace, shared=()).run(smoke_specs["plain"].run_id).table("canaries")
    found = exposure_by_copies(table).set_index(["arm", "insertions"])
    ranked = table[table["form"] != "patient"]
    for (arm, copies), row in found.iterrows():
        of = ranked[ranked["inserted"] == (arm == "run")]
        values = of["exposure"] if arm == "heldout" else of.loc[of["insertions"] == copies, "exposure"]
        assert row["exposure"] == pytest.approx(values.mean()) and row["canaries"] == len(values)
    assert len(exposure({"a run": found.reset_index()}, most=None).data) == 3, "with a line at chance"
    assert pytest.approx(1.4427, abs=1e-4) == BLIND


def test_why_a_part_of_the_risk_score_is_missing(smoke_workspace, smoke_specs):
    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["plain"].run_id)
    masked = run.spec.model.model_copy(update={"kind": "bert"})
    bert = dataclasses.replace(run, spec=run.spec.model_copy(update={"model": masked}))
    rows = [(version, part) for version in (OLD, CALIBRATED) for part in (*WEIGHTS, SCORE)]
    table = pd.DataFrame(rows, columns=["version", "part"])
    assert without("a", run, table) == []
    quick = table[table["part"] != "memorisation"]
    assert without("a", run, quick) == ["“a” has no part “word for word”: no full audit has measured it."]
    assert len(told := without("a", bert, quick)) == 1 and "no likeliest next token, so no audit measures it" in told[0]
    assert "“canaries”" in without("a", run, table[(table["part"] != "canary") | (table["version"] == OLD)])[0]


def test_the_race_is_the_history(smoke_workspace, smoke_specs):
    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["plain"].run_id)
    found = race(run.table("history"), run.table("canaries"))
    assert set(found["epoch"]) == {1, 2} and found["canary_id"].nunique() in (2, 3)
    inserted = run.table("canaries").set_index("canary_id")["inserted"]
    assert ((found["copies"] > 0) == inserted.loc[found["canary_id"]].to_numpy()).all()
    base = Workspace(smoke_workspace, shared=()).run(smoke_specs["base"].run_id)
    assert race(base.table("history"), base.table("canaries")).empty


def test_an_alarm_has_the_colour_of_risk(smoke_workspace, smoke_specs):
    from core.evaluation.memorisation.summary import bounds_of

    table = bounds_of(Workspace(smoke_workspace, shared=()).run(smoke_specs["dp"].run_id))
    calm = bounds(table).data[-2].marker.color
    alarmed = bounds(table.assign(alarm=True)).data[-2].marker.color
    assert set(calm).isdisjoint(alarmed)


def test_predictors_are_told_in_percent_beside_what_a_blind_rule_gets():
    known = {"run": "a", "features": "A: digits", "memorised": 0.377}
    table = pd.DataFrame(
        [
            known
            | {
                f"{name}{end}": value
                for name in ("precision", "recall")
                for end, value in (("", 0.637), ("_low", 0.594), ("_high", 0.673))
            },
            known
            | {
                f"{name}{end}": value
                for name, value in (("precision", float("nan")), ("recall", 0.0))
                for end in ("", "_low", "_high")
            },
        ]
    )
    first, second = predictor_rows(table).to_dict("records")
    assert first["precision (95 % interval)"] == "64\u00a0% (59\u00a0% to 67\u00a0%)"
    assert first["share of notes found"] == "38\u00a0%"
    assert second["precision (95 % interval)"] == "predicts no note"
    assert "0\u00a0%" in second["recall (95 % interval)"]


def test_ranked_extraction_is_told_with_its_recall_and_greedy_answers(audited_with, monkeypatch, smoke_specs):
    root, run = audited_with("greedy extraction", "extraction ranking"), smoke_specs["plain"].run_id
    monkeypatch.setenv("PHILAB_DATA", str(root))
    told = said(opened(view="Questions", left=run, right=smoke_specs["dp"].run_id))
    table = Workspace(root, shared=()).audit(run).table("extraction_recall")
    row = table[(table["score"] == "ratio") & (table["errors"] == 100)].iloc[0]
    if row["leaks"]:
        assert f"{row['found']} of {row['leaks']} distinct values" in told
    else:
        assert "nothing to rank" in told
    assert "14 prompts reveal an identifier of" in told


def test_recall_in_a_sentence():
    rows = [("ratio", 100, 0.25, 2, 8, 102), ("log_likelihood", 100, 0.5, 4, 8, 104)]
    table = pd.DataFrame(rows, columns=["score", "errors", "recall", "found", "leaks", "read"])
    assert "2 of 8 distinct values (25\u00a0%) come before wrong text no. 101" in ranked_sentence(table)
    assert "likelihood alone, 4 (50\u00a0%)" in ranked_sentence(table)
    assert "nothing to rank" in ranked_sentence(table.assign(leaks=0))


def test_a_number_of_copies_is_enough_only_if_every_larger_one_is():
    nan = float("nan")
    rows = [("heldout", 0, 1.0, 2.0), ("run", 1, 0.5, 3.0), ("run", 2, 2.5, 5.0), ("run", 4, 3.0, 9.0)]
    figures = pd.DataFrame(rows, columns=["arm", "insertions", "low", "high"]).assign(exposure=1.5, canaries=10)
    assert sentences.exposure_answer(figures).startswith("2 copies are enough: mean exposure 1.5 bits")
    one = figures.assign(low=figures["low"].mask(figures["insertions"] == 1, 2.1))
    assert sentences.exposure_answer(one).startswith("1 copy is enough")
    gap = figures.assign(low=figures["low"].mask(figures["insertions"] == 4, 1.9))
    assert sentences.exposure_answer(gap).endswith("0 to 2.0): no difference is shown.")
    for unknown in (figures[figures["arm"] == "run"], figures.assign(high=nan), figures.assign(low=nan)):
        assert "cannot be compared" in sentences.exposure_answer(unknown)


def test_three_canaries_that_all_rank_first_are_too_few_to_tell():
    """All three rank first, and yet the interval of three reaches down to the control's: both are said."""
    rows = [("heldout", 0, 2.59, 0.27, 4.91, 4), ("run", 1, 9.97, 5.0, 9.97, 4), ("run", 8, 9.97, 4.37, 9.97, 3)]
    figures = pd.DataFrame(rows, columns=["arm", "insertions", "exposure", "low", "high", "canaries"])
    assert sentences.exposure_answer(figures).replace("\u00a0", " ") == (
        "With 8 copies, the mean is 10.0 bits (95 % interval 4.4 to 10.0) over only 3 canaries; the 4 left-out ones "
        "have 2.6 bits (95 % interval 0.3 to 4.9): too few canaries to tell."
    )
    single = figures.assign(low=figures["low"].mask(figures["insertions"] == 8))
    said_of = sentences.exposure_answer(single)
    assert said_of.startswith("1 copy is enough") and "over only 4 canaries" in said_of
    assert said_of.endswith(" 8 copies: a single canary, which has no interval and is not compared.")


def test_legends_are_above_their_charts():
    """Below a chart they are below the fold of a screen of 800 pixels."""
    empty = [race_chart({}), verbatim({}), leak_curve({})]
    assert all(figure.layout.legend.y > 1 and figure.layout.height <= 400 for figure in empty)


def test_a_risk_score_near_zero_has_no_sign():
    assert [score_text(score) for score in (-0.0029, -0.03, 0.612)] == ["0.00", "−0.03", "0.61"]
