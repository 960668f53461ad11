"""The limits of a board's decision: read from a file, compared with what was measured, and on the first page."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pandas as pd
import pytest

from core.evaluation import registry
from core.evaluation.report.decision import Decision, read
from core.evaluation.report.facts import build
from core.evaluation.report.glance import Subject
from core.evaluation.report.html import render
from core.evaluation.report.what_follows import conditions, first_limits, limit_lines, limits_sentence, still_open
from core.evaluation.sweep.limit_measures import measures, risks_of
from core.evaluation.sweep.limits import Limits
from core.evaluation.sweep.recommendation import ACCEPTED_COLUMNS, COLUMNS, Recommendation, against_limits

LIMITS = {"auc_strongest": 0.05, "full_name_patients_excess": 1.0, "members_caught": 0.755}


@pytest.fixture(scope="module")
def run(workspace, smoke_specs):
    return workspace.run(smoke_specs["dp"].run_id)


@pytest.fixture(scope="module")
def report(workspace, run):
    return build(workspace, [run], now=0.0, decision=Decision(limits=LIMITS))


def test_a_file_holds_limits_and_an_older_one_without_them_is_read(tmp_path):
    path = tmp_path / "decision.json"
    path.write_text(json.dumps({"accepted": "AUC at most 0.75", "limits": {"auc_strongest": 0.75}}), encoding="utf-8")
    assert read(path).limits == {"auc_strongest": 0.75}
    path.write_text('{"accepted": "AUC at most 0.75"}', encoding="utf-8")
    assert read(path).limits == {} and "the accepted limits" not in read(path).missing()
    assert "the accepted limits" in Decision().missing()
    assert "the accepted limits" not in Decision(limits=LIMITS).missing()


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"auc": 0.7}, "there is no risk “auc”; there are auc_strongest, .*members_caught"),
        ({"utility_share": 0.5}, "there is no risk “utility_share”"),
        ({"auc_strongest": 75}, "the limit of membership AUC must be between 0 and 1, not 75"),
        ({"auc_strongest": "low"}, "limits.auc_strongest"),
    ],
)
def test_limits_that_cannot_be_used_are_a_sentence(tmp_path, limits, words):
    path = tmp_path / "decision.json"
    path.write_text(json.dumps({"limits": limits}), encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        read(path)


def test_a_limit_is_met_by_the_worse_end_alone():
    def told(value: float, low: float, high: float) -> str:
        found = {"auc_strongest": {"value": value, "low": low, "high": high, "attack": "loss", "attacks": 1}}
        return against_limits(found, {"auc_strongest": 0.75})["met"].item()

    assert told(0.70, 0.65, 0.75) == "met" and told(0.70, 0.65, 0.7501) == "not met"
    assert told(0.70, math.nan, math.nan) == "not met", "without an interval there is no worse end that meets it"
    assert told(math.nan, math.nan, math.nan) == "not measured"
    none = against_limits({}, {"members_caught": 0.5, "auc_strongest": 0.75})
    assert none["met"].tolist() == ["not measured"] * 2
    assert none["measure"].tolist() == ["members_caught", "auc_strongest"], "in the order of the limits"
    assert list(against_limits({}, {}).columns) == ACCEPTED_COLUMNS


def test_the_first_page_counts_the_attacks_that_could_not_be_bounded_and_the_annex_names_them():
    few = "gradient norms (1,168 patients), neighbourhood (33 patients)"
    ends = {"value": 0.52, "low": 0.48, "high": 0.57}
    one = {"auc_strongest": {**ends, "attack": "rmia", "attacks": 10, "few": few}}
    rows = against_limits(one, {"auc_strongest": 0.6})
    (line,), (short,) = limit_lines(rows), first_limits(rows.to_dict("records"))
    assert line.endswith(f"; not bounded: {few})") and "; strongest of 10, 2 not bounded: the likelihood" in short
    assert "; strongest of 10 membership attacks: the" in first_limits(rows.assign(few="").to_dict("records"))[0]


def test_the_risks_of_a_run_are_those_of_the_recommendation(workspace, run, smoke_specs):
    rows = measures([run], workspace.find(smoke_specs["base"]), {run.id: workspace.audit(run.id)}).set_index("metric")
    found = risks_of(run, workspace.audit(run.id))
    assert set(found) == set(rows.index) and set(found) <= set(registry.limits())
    for name, one in found.items():
        assert {key: rows.loc[name, key] for key in one} == one
    assert set(risks_of(run, workspace.audit(run.id), LIMITS)) == set(LIMITS)
    assert risks_of(run, workspace.audit(run.id), {"auc_loss"}) == {"auc_loss": found["auc_loss"]}


def test_limits_are_compared_with_the_figures_of_the_report(report, run):
    table = report.tables["accepted_limits"].set_index("measure")
    strongest = report.tables["strongest"].set_index("run").loc[run.id]
    assert table.loc["auc_strongest", ["value", "low", "high"]].tolist() == strongest[["value", "low", "high"]].tolist()
    for name, limit in LIMITS.items():
        assert table.loc[name, "limit"] == limit
        assert table.loc[name, "met"] == ("met" if table.loc[name, "high"] <= limit else "not met")
    assert set(table["met"]) == {"met", "not met"}, "the test has both"


def test_the_first_page_has_the_limits_in_place_of_none_were_given(report, workspace, run):
    front, _, annex = render(report).partition('<div class="annex">')
    assert "Accepted limits" in front and "none were given" not in front + " ".join(report.facts["open"])
    assert all(line in front for line in report.facts["accepted_limits"]) and 'id="accepted-auc_strongest"' in annex
    broken = report.tables["accepted_limits"]["met"].eq("not met").sum()
    which = "an accepted limit is" if broken == 1 else f"{broken} accepted limits are"
    assert report.facts["conditions"][0] == f"Do not release it while {which} not met."
    assert "the accepted limits" not in " ".join(report.facts["open"])
    assert "at most 0.05" in report.facts["deployment_record"]["deployment"]["implementation"]["justification"]
    assert "compared with the model of the first page" in report.facts["recommendation"]["sentences"][0]
    plain = build(workspace, [run], now=0.0)
    assert "Accepted limits</b>" not in render(plain) and any("none were given" in line for line in plain.facts["open"])
    words = build(workspace, [run], now=0.0, decision=Decision(accepted="AUC at most 0.75"))
    assert not any("none were given" in line for line in words.facts["open"])
    assert any("nothing was compared with them" in line for line in words.facts["open"])


def test_what_was_not_measured_is_open_and_has_to_be_measured(report, run):
    rows = report.tables["accepted_limits"].assign(met="not measured", value=math.nan, low=math.nan, high=math.nan)
    about = Subject.of(run, "A", {**report.tables, "accepted_limits": rows}, 1)
    decision = Decision(limits=LIMITS)
    wanted = f"Do not release it before every accepted limit is measured: {len(LIMITS)} are not."
    assert conditions(about, decision)[0] == wanted
    alarm = {**about.tables, "bounds": report.tables["bounds"].assign(alarm=True)}
    refuted = replace(about, tables=alarm)
    assert refuted.alarmed and conditions(refuted, decision)[0].startswith("None: do not release it.")
    lines = still_open(about, decision, audited=True, recommended=False)
    assert "Accepted limits that were not measured: 3." in lines
    assert limit_lines(rows)[0] == "membership AUC at most 0.05: not measured"


def test_of_many_limits_the_first_page_has_those_that_are_not_met_first():
    frame = against_limits({}, {name: 0.5 for name in registry.limits()})
    met = ["met", "not met", "not measured", "met", "not met", "met", "met", "met", "met"]
    rows = frame.assign(met=met, value=0.4, low=0.3, high=0.45).to_dict("records")
    lines = first_limits(rows)
    assert [line.rpartition(": ")[2].partition(" (")[0] for line in lines] == ["not met", "not met", "not measured"]
    assert first_limits(rows[:3])[0] == lines[0] and first_limits([]) == []


def test_one_sentence_says_which_limits_are_not_met_and_who_decides():
    rows = against_limits({}, {"auc_strongest": 0.6, "members_caught": 0.1, "auc_loss": 0.6})
    decides = "whether to release the model is decided by the risk owner and the approvers, not by this report."

    def told(*met: str) -> str:
        return limits_sentence(rows.iloc[: len(met)].assign(met=list(met)).to_dict("records"))

    assert told() == f"No limit was given in numbers, so none was checked; {decides}"
    assert told("met") == f"The accepted limit is met, which does not change the verdict; {decides}"
    assert told("met", "met").startswith("Both accepted limits are met,")
    assert told("met", "met", "met").startswith("All 3 accepted limits are met,")
    broken = (
        "Not every accepted limit is met, 1 of 3 are (not met: membership AUC; not measured: notes caught by the loss "
        "attack); "
    )
    assert told("not met", "not measured", "met") == broken + decides
    assert told("not measured").startswith("The accepted limit is not measured: membership AUC; ")
    assert told("not met", "not measured").startswith(
        "No accepted limit is met (not met: membership AUC; not measured: "
    )


def test_the_first_page_has_that_sentence_with_or_without_limits(report, workspace, run):
    for made in (report, build(workspace, [run], now=0.0)):
        front = render(made).partition('<div class="annex">')[0]
        assert limits_sentence(made.tables["accepted_limits"].to_dict("records")) in front


def test_the_limits_of_a_recommendation_are_not_said_to_be_missing(workspace, run):
    """One report must not say that no limit was given and that a run meets your limits."""
    frame = pd.DataFrame(columns=COLUMNS)
    found = Recommendation(Limits({"auc_strongest": 0.6}, 0.2), None, None, frame, frame, ("None of them meets both.",))
    front = render(build(workspace, [run], now=0.0, recommendation=found)).partition('<div class="annex">')[0]
    assert "No limit was given in numbers" not in front
    said = "No limit was given for it; the annex compares those of the recommendation with every ε; whether"
    assert limits_sentence([], recommended=True).startswith(said) and said in front


def test_the_end_beside_a_limit_is_that_of_the_tables():
    """An upper end of 0.5642 is 0.564 in the table of attacks, so the line about the limit must not say 0.565."""
    rows = [("auc_strongest", 0.6, 0.517, 0.47, 0.5642), ("full_name_patients_excess", 0.01, 0.0, 0.0, 0.003149)]
    frame = pd.DataFrame(rows, columns=["measure", "limit", "value", "low", "high"]).assign(met="met")
    auc, names = limit_lines(frame)
    assert auc.endswith(f"(up to {registry.figure_text('auc_strongest', 0.5642)})") and "0.564)" in auc
    assert names.endswith("(up to 0.31\u00a0%)")


def test_neither_limit_nor_worse_end_is_rounded_to_the_other_side():
    """0.7551 is above 0.755, so it is not shown as 0.76 or 0.75; 0.7547 meets 0.7548, so it is not 0.755."""
    rows = [("auc_strongest", 0.755, 0.7, 0.6, 0.7551), ("members_caught", 0.755, 0.7, 0.6, 0.75501)]
    rows += [("direct_patients_excess", 0.0, -0.1, -0.2, -0.03), ("auc_loss", 0.6, 0.5, math.nan, math.nan)]
    frame = pd.DataFrame(rows, columns=["measure", "limit", "value", "low", "high"]).assign(met="not met")
    auc, caught, excess, alone = limit_lines(frame)
    assert auc == "membership AUC at most 0.755: not met (up to 0.7551)"
    assert caught.endswith("at most 75.5\u00a0%: not met (up to 76\u00a0%)")
    assert excess.endswith("at most 0\u00a0%: not met (up to −3.0\u00a0%)")
    assert alone.endswith("at most 0.6: not met (no interval)")
    rows = [("auc_strongest", 0.7548, 0.7, 0.6, 0.7547), ("members_caught", 0.29, 0.2, 0.1, 0.29)]
    frame = pd.DataFrame(rows, columns=["measure", "limit", "value", "low", "high"]).assign(met="met")
    assert [line.rpartition("up to ")[2] for line in limit_lines(frame)] == ["0.7547)", "29\u00a0%)"]


@pytest.mark.parametrize(
    ("end", "limit", "met", "told"),
    [
        (-3e-5, 0.02, "met", ">\u00a0−0.01\u00a0%"),
        (-3e-5, 0.0, "met", ">\u00a0−0.01\u00a0%"),
        (3e-5, 0.0, "not met", "<\u00a00.01\u00a0%"),
        (4e-5, 5e-5, "met", "0.004\u00a0%"),
        (-3e-5, -5e-5, "not met", "−0.003\u00a0%"),
        (0.0, 5e-5, "met", "0\u00a0%"),
    ],
)
def test_an_end_near_zero_is_on_its_side_of_the_limit_and_not_zero(end, limit, met, told):
    found = {"value": end, "low": end - 0.01, "high": end}
    frame = against_limits({"full_name_patients_excess": found}, {"full_name_patients_excess": limit})
    (line,) = limit_lines(frame)
    assert f": {met} (" in line and f"up to {told}" in line


def test_limits_take_part_in_the_page_of_any_subject(workspace, smoke_specs):
    """A run without privacy and the public base model have limits too."""
    for name in ("plain", "base"):
        one = workspace.run(smoke_specs[name].run_id)
        made = build(workspace, [one], now=0.0, decision=Decision(limits={"auc_strongest": 1.0}))
        assert made.facts["accepted_limits"][0].startswith("membership AUC at most 1: met")
