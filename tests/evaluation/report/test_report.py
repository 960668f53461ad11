"""The report: JSON equals tables, nothing unescaped or fetched, and commands that make the same runs."""

from __future__ import annotations

import io
import json
import math
import shlex
import shutil
import zipfile
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import pandas as pd
import pytest
from jinja2 import UndefinedError

from core.evaluation.report import html
from core.evaluation.report.commands import report_command
from core.evaluation.report.facts import build, plain
from core.evaluation.report.html import render
from core.evaluation.report.tables import memorised, probes
from core.evaluation.sweep.limit_measures import measures
from core.evaluation.sweep.limits import Limits
from core.evaluation.sweep.recommendation import recommend
from core.evaluation.wording import verdict
from core.phi.fields import HIPAA_IDENTIFIERS
from core.runs.ledger.entries import Ledger
from core.runs.store import Workspace
from core.runs.tables import write_table
from core.spec import CORPUS_PRESETS
from tests.evaluation.report.conftest import part

NASTY = "<script>alert('x')</script> & \"co\""


@pytest.fixture(scope="module")
def report(workspace, smoke_specs):
    runs = [workspace.run(smoke_specs[name].run_id) for name in ("plain", "dp")]
    ledger = Ledger.of(workspace, runs[0].spec.corpus)
    ledger.enter(ledger.draft_run(runs[1], f"for {NASTY}"))
    base = workspace.run(smoke_specs["base"].run_id)
    found = recommend(measures(runs, base, {}), Limits({"auc_loss": 1.0}, 0.0, use_case=NASTY))
    return build(workspace, runs, recommendation=found, delta=1e-3, now=0.0)


def test_the_verdict_tells_membership_by_patient_and_every_bound_with_its_ceiling(report):
    for one in report.facts["verdict"]:
        text = " ".join(one["sentences"])
        assert "pairs of one patient in the training data" in text and "a full audit may find a stronger one" in text
        assert "could show at most" in text
    private = " ".join(report.facts["verdict"][1]["sentences"])
    assert "on average at most" in private and "equally likely beforehand" in private
    strongest = report.tables["strongest"]
    assert (strongest["attack"] == "loss").all() and (strongest["patients"] == 24).all()
    assert any("two runs that differ in one note" in limit for limit in report.facts["limits"])


class Seen(HTMLParser):
    """Every tag with its attributes, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def seen(html: str) -> Seen:
    parser = Seen()
    parser.feed(html)
    return parser


def test_json_equals_the_tables(report):
    told = json.loads(report.to_json())
    assert set(told["tables"]) == set(report.tables)
    for name, frame in report.tables.items():
        assert told["tables"][name] == plain(frame.to_dict("records")), name
    (model,) = [row for row in told["tables"]["models"] if row["unit"] == ""]
    assert model["epsilon"] == "inf" and model["delta"] is None
    assert "NaN" not in report.to_json() and "Infinity" not in report.to_json()


def test_bounds_by_the_curve_of_private_runs_are_facts_under_stable_keys(report):
    """The same row is in the table of bounds, and a run without privacy, which has no curve, has neither."""
    rows = report.tables["bounds"].query("evidence == 'one run, by its curve'").set_index("run")
    private = [row["run"] for row in report.tables["models"].to_dict("records") if row["unit"]]
    assert [one["run"] for one in report.facts["bounds_by_curve"]] == list(rows.index) == private
    for one in report.facts["bounds_by_curve"]:
        assert set(one) == {
            *("run", "epsilon", "ceiling", "promised", "unit", "guesses", "correct", "confidence", "alarm", "sentence")
        }
        assert one["epsilon"] == rows.loc[one["run"], "epsilon"] <= one["ceiling"] and one["confidence"] == 0.95
        assert f"{one['guesses']} guesses prove" in one["sentence"]
    assert json.loads(report.to_json())["bounds_by_curve"]


def test_the_packed_report_holds_every_table_as_csv(report):
    archive = zipfile.ZipFile(io.BytesIO(report.to_zip("<p>page</p>")))
    files = {"report.html", "report.json", "deployment-record.json", *(f"{name}.csv" for name in report.tables)}
    assert set(archive.namelist()) == files
    figures = pd.read_csv(archive.open("figures.csv"))
    assert figures["value"].tolist() == pytest.approx(report.tables["figures"]["value"].tolist(), nan_ok=True)
    assert b"'<script" not in archive.read("ledger.csv") and b"<script" in archive.read("ledger.csv")


def test_every_packed_table_can_be_read_without_limits_too(workspace, smoke_specs):
    made = build(workspace, [workspace.run(smoke_specs["plain"].run_id)], now=0.0)
    archive = zipfile.ZipFile(io.BytesIO(made.to_zip("<p>page</p>")))
    for name, table in made.tables.items():
        assert pd.read_csv(archive.open(f"{name}.csv")).columns.tolist() == table.columns.tolist(), name
    assert not len(made.tables["recommendation"]) and json.loads(made.to_json())["tables"]["recommendation"] == []


def test_the_page_runs_no_script_fetches_nothing_and_escapes_all(report):
    source = render(report)
    page = seen(source)
    assert NASTY in page.text and "<script" not in source
    assert {tag for tag, _ in page.tags} <= {
        *("html", "head", "meta", "title", "style", "body", "section", "div", "h1", "h2", "h3", "p", "ul", "li", "pre"),
        *(
            "table",
            "caption",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "span",
            "br",
            "b",
            "svg",
            "line",
            "circle",
            "code",
            "a",
            "text",
            "polyline",
        ),
    }
    assert not any({"src", "style", "onload", "onclick"} & set(attributes) for _, attributes in page.tags)
    links = [attributes["href"] for _, attributes in page.tags if "href" in attributes]
    anchors = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert len(links) > 9 and {link.removeprefix("#") for link in links} <= anchors, "every link leads into the page"
    assert "http" not in source and "@import" not in source and "url(" not in source


def test_every_word_that_is_not_ours_is_escaped_wherever_it_stands(report):
    """Each text cell of every table, and every fact, in turn becomes hostile."""
    hostile = {
        name: frame.map(lambda value: NASTY + value if isinstance(value, str) and value != "" else value)
        for name, frame in report.tables.items()
        if name not in ("recommendation", "controls")  # their words are looked up, never shown as they are
    }
    names = {NASTY + run: NASTY + name for run, name in report.facts["names"].items()}
    verdicts = [{**one, "run": NASTY + one["run"], "sentences": [NASTY]} for one in report.facts["verdict"]]
    facts = report.facts | {
        "title": NASTY,
        "names": names | report.facts["names"],
        "verdict": verdicts,
        "limits": [NASTY],
        "commands": [NASTY],
        "versions": {NASTY: NASTY},
        "not_attacked": [NASTY],
        "conditions": [NASTY],
        "open": [NASTY],
        "glance": [{**one, "question": NASTY, "answer": NASTY} for one in report.facts["glance"]],
        "subject": {**report.facts["subject"], "name": NASTY, "sentence": NASTY},
    }
    page = render(type(report)(facts, report.tables | hostile))
    assert "<script" not in page and page.count("&lt;script&gt;") > 50


@pytest.mark.parametrize(
    ("template", "macro", "row"),
    [
        ("attacks", "membership", {"attack": NASTY, "level": NASTY, "n": 3}),
        ("attacks", "memorised", {"arm": "run", "prefix_tokens": NASTY, "notes": 3}),
        ("attacks", "tries", {"field": "full_name", "arm": "run", "figure": "one_in"}),
        ("attacks", "probes", dict.fromkeys(("question", "answer", "controls", "verdict"), NASTY)),
        ("attacks", "risk", {"part": NASTY, "weight": 0.5}),
        ("models", "costs", {"run_id": "r", "steps": 1, "tokens": 1, "seconds": 1.0}),
    ],
)
def test_what_only_a_full_audit_brings_is_escaped(template, macro, row):
    """The smoke runs of the tests above have no such tables."""
    rows = [{"run": "r", "value": 0.5, "low": 0.4, "high": 0.6} | row]
    page = part(template, macro, rows, {"r": NASTY})
    assert "<script" not in page and "&lt;script&gt;" in page
    assert NASTY in seen(page).text


def test_a_missing_fact_or_column_fails_instead_of_showing_nothing(report):
    without = {name: value for name, value in report.facts.items() if name != "commands"}
    with pytest.raises(UndefinedError, match="commands"):
        render(type(report)(without, report.tables))
    models = report.tables["models"].drop(columns="seed")
    with pytest.raises(UndefinedError, match="seed"):
        render(type(report)(report.facts, report.tables | {"models": models}))


def test_the_templates_are_found_from_any_folder(report, tmp_path, monkeypatch):
    expected = render(report)
    html._templates.cache.clear()
    monkeypatch.chdir(tmp_path)
    assert render(report) == expected


def test_a_report_calls_a_public_seed_no_promise(report, smoke_workspace, smoke_specs):
    """The same run with its noise as it was drawn: the report above has it marked as secret."""
    assert "not promised" not in render(report)
    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["dp"].run_id)
    public = build(Workspace(smoke_workspace, shared=()), [run], now=0.0)
    page, told = render(public), public.facts["verdict"][0]["sentences"][0]
    assert told.startswith("Guarantee if its noise were secret: (8,") and told.endswith("shown, not promised.")
    assert page.count("reproducible: ε is shown, not promised") == 2 and public.tables["models"]["noise_source"][0] == (
        "public seed"
    )


def test_it_says_what_must_be_said(report, smoke_specs):
    text = " ".join(seen(render(report)).text.split())
    mechanism_line = next(line for line in report.facts["verdict"][1]["sentences"] if line.startswith("Guarantee"))
    assert "for one note (neighbours: add/remove one note)" in mechanism_line and mechanism_line in text
    assert "Treat it like the notes themselves" in text
    for identifier in HIPAA_IDENTIFIERS:
        assert identifier in text
    assert "not a statement about compliance" in text and "does not show compliance with any law" in text
    assert "quick audit only" in text, "what was not attacked is named"
    assert f"For: {NASTY}" in text, "the use case stands beside what is recommended for it"
    assert "Everything released of this cohort so far promises ε = 8" in text
    for number in (run for run in report.facts["names"]):
        assert number in text


def test_releases_of_both_units_are_told_together(report, workspace, smoke_specs, tmp_path):
    """For one unit alone the total is everything; with both, each total leaves the other's releases out and says so."""
    most = report.facts["cohort"]["most_training_notes_of_a_patient"]
    (patient,) = report.facts["promised"]["together"]
    assert (patient["unit"], patient["notes"]) == ("patient", most) and "for one note." in told_of_ledger(report)
    shutil.copytree(workspace.root, tmp_path / "data")
    copy = Workspace(tmp_path / "data", shared=())
    run = copy.run(smoke_specs["dp"].run_id)
    spec = run.spec.model_copy(
        update={
            "privacy": run.spec.privacy.model_copy(update={"unit": "patient"}),
            "training": run.spec.training.model_copy(update={"seed": 77}),
        }
    )
    folder = copy.root / "runs" / spec.run_id
    shutil.copytree(run.folder, folder)
    (folder / "spec.json").write_text(spec.model_dump_json(), encoding="utf-8")
    per_patient = run.privacy.model_copy(update={"unit": "patient"})
    (folder / "privacy.json").write_text(per_patient.model_dump_json(), encoding="utf-8")
    ledger = Ledger.of(copy, run.spec.corpus)
    ledger.enter(ledger.draft_run(copy.run(spec.run_id), "a test"))
    both = build(copy, [run], delta=1e-3, now=0.0)
    totals = both.facts["promised"]["totals"]
    epsilon = totals["note"]["epsilon"]
    assert totals["patient"]["epsilon"] == epsilon == pytest.approx(8, rel=2e-3)
    patient, note = both.facts["promised"]["together"]
    assert (note["epsilon"], note["delta"]) == pytest.approx((3 * epsilon, min(1, (2 + math.exp(epsilon)) * 1e-3)))
    assert patient["epsilon"] == pytest.approx(epsilon + run.privacy.patient_epsilon(most, 1e-3))
    told = told_of_ledger(both)
    assert "Everything released" not in told and told.count("By themselves, without the others, the releases per") == 2
    assert f"the patient with the most notes ({most}), everything together promises nothing at all" in told
    assert "For one note, everything together promises nothing at all" in told, "δ is 1"
    assert told in " ".join(seen(render(both)).text.split())
    assert json.loads(both.to_json())["promised"]["together"][1]["epsilon"] == pytest.approx(3 * epsilon)


def told_of_ledger(report) -> str:
    return " ".join(report.facts["promised"]["sentences"])


def test_right_guesses_stand_by_promise_and_by_mechanism(report):
    models = report.tables["models"].set_index("unit")
    assert models.loc["", "right_guesses_promised"] == models.loc["", "right_guesses_counted"] == 1.0
    private = models.loc["note"]
    assert 0.5 < private["right_guesses_counted"] < private["right_guesses_promised"] < 1.0


def test_runs_of_two_cohorts_or_none_are_refused(workspace, smoke_specs):
    run = workspace.run(smoke_specs["dp"].run_id)
    other = replace(run, spec=run.spec.model_copy(update={"corpus": CORPUS_PRESETS["classroom"]}))
    with pytest.raises(ValueError, match="one cohort"):
        build(workspace, [run, other])
    with pytest.raises(ValueError, match="at least one run"):
        build(workspace, [])


# Rare diseases -------------------------------------------------------------------------------------------------------


def test_a_small_cohort_is_said_to_be_too_small(report):
    assert (~report.tables["rarity_buckets"]["kept"]).all()
    assert set(report.tables["rarity_trends"]["rarity"]) == {"too few held-out patients or members"}
    page = render(report)
    assert "No bucket holds 20 members and 20 held-out patients" in page
    assert "There are too few patients to tell" in page


# What stands side by side ---------------------------------------------------------------------------------------------


def test_a_figure_without_a_held_out_arm_is_judged_by_the_public_model(report, smoke_specs):
    rows = report.tables["controls"].set_index(["run", "metric"])
    run = smoke_specs["plain"].run_id
    assert rows.loc[(run, "direct_patients"), "against"] == "held out"
    assert rows.loc[(run, "auc_loss"), "against"] == "base"
    one = rows.loc[(run, "auc_loss")]
    assert one["verdict"] == verdict(one["low"], one["high"], one["base_low"], one["base_high"])


def test_side_by_side_every_model_has_a_row_of_what_decides(report):
    page = render(report)
    start = page.index("Models side by side")
    glance = " ".join(seen(page[start : page.index("<h2>Findings")]).text.split())
    for name in report.facts["names"].values():
        assert name in glance
    assert "no limit" in glance and "held out" in glance and "at most" in glance


def test_a_promise_for_a_note_is_told_for_the_patient_with_the_most(report):
    most = report.facts["cohort"]["most_training_notes_of_a_patient"]
    private = report.facts["verdict"][1]["sentences"]
    assert any(f"For a patient with {most} notes" in sentence for sentence in private)
    assert not any("For a patient with" in sentence for sentence in report.facts["verdict"][0]["sentences"])


def test_each_run_has_its_own_cap_of_notes(workspace, smoke_specs):
    """Older runs capped the notes of a patient (Jagannatha 2021, §2): each report uses its own run's cap."""
    capped = smoke_specs["dp"].training.model_copy(update={"max_notes_per_patient": 2})
    spec = smoke_specs["dp"].model_copy(update={"training": capped})
    folder = workspace.root / "runs" / spec.run_id
    shutil.copytree(workspace.root / "runs" / smoke_specs["dp"].run_id, folder)
    (folder / "spec.json").write_text(spec.model_dump_json(), encoding="utf-8")  # schema 1: it has no number
    scores = workspace.run(spec.run_id).table("scores")
    write_table(folder / "tables", "scores", scores[scores.groupby("patient_id").cumcount() < 2])
    found = build(workspace, [workspace.run(smoke_specs["dp"].run_id), workspace.run(spec.run_id)], now=0.0)
    shutil.rmtree(folder)
    told = [next(line for line in one["sentences"] if "For a patient" in line) for one in found.facts["verdict"]]
    assert "with 2 notes" in told[1] and "with 2 notes" not in told[0]


def test_what_full_audits_found_is_told(workspace, smoke_specs):
    """Tables in the form of a full audit's; a report without one has neither table."""
    run_id = smoke_specs["plain"].run_id
    rates = pd.DataFrame(
        {
            "arm": ["run", "heldout"],
            "prefix_tokens": 8,
            "verbatim": [0.5, 0.0],
            "low": [0.4, 0.0],
            "high": [0.6, 0.1],
            "notes": [20, 10],
            "found": [10, 0],
            "patients": [5, 3],
            "mean_matched": 1.0,
        }
    )
    found = memorised({run_id: SimpleNamespace(table=lambda name: rates)})
    assert found["value"].tolist() == [0.5, 0.0]
    page = part("attacks", "memorised", found.to_dict("records"), {run_id: "A"})
    assert "50\u00a0%" in page and "held-out notes" in page and "public base" not in page
    assert memorised({run_id: SimpleNamespace(table=lambda name: pd.DataFrame())}).empty
    assert probes({run_id: SimpleNamespace(table=lambda name: pd.DataFrame())}).empty


def test_the_report_names_the_command_that_makes_it(report):
    limits = Limits({"auc_loss": 0.6}, 0.25, use_case="it's for teaching")
    told = report_command(["a", "b"], limits, 1e-6)
    words = shlex.split(told)
    assert words[:6] == ["python", "-m", "core", "report", "a", "b"]
    assert words[6:] == [
        "--out",
        "report.html",
        "--delta",
        "1e-06",
        "--limit",
        "auc_loss=0.6",
        "--utility",
        "0.25",
        "--use-case",
        "it's for teaching",
    ]
    assert report.facts["commands"][-1].startswith("python -m core report ")
