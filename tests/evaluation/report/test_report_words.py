"""Sentences and cells of the report, from figures put in by hand."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.attacks.evaluation_set import MOST
from core.corpus.tables import Corpus
from core.evaluation.comparison import differences
from core.evaluation.registry import figure_text
from core.evaluation.report import html
from core.evaluation.report.crosswalk.cells import Evidence
from core.evaluation.report.crosswalk.nist_aml import attacks
from core.evaluation.report.decision import Decision
from core.evaluation.report.facts import Report, _beside, _not_attacked, build, first_page
from core.evaluation.report.findings import noise_alone
from core.evaluation.report.glance import Subject, _known_words
from core.evaluation.report.tables import controls
from core.evaluation.report.what_follows import still_open
from core.evaluation.wording import shared_values_sentence, signed
from core.runs.facts import UNKNOWN
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, ModelSpec, PrivacySpec, RunSpec, TrainingSpec, VocabularySpec
from tests.evaluation.report.conftest import part
from tests.pages.visit import WAIT

COLUMNS = ["metric", "arm", "value", "low", "high"]
LEAKS = [["direct_patients", "run", 0.25, 0.2, 0.3], ["direct_patients", "heldout", 0.01, 0.0, 0.02]]


def test_an_attack_of_the_full_audit_has_its_number_and_why_it_is_not_that_of_the_quick_audit():
    """The loss attack is in two tables, of 1,116 and of 1,076 patients, with two AUCs."""
    ends = {"run": "r", "attack": "loss", "value": 0.513, "low": 0.498, "high": 0.529}
    rows = [ends | {"level": "note", "n": 10_468}, ends | {"level": "patient", "n": 1_076}]
    page = part("attacks", "membership", rows, {"r": "A"})
    assert "10,468 notes" in page and "1,076 patients" in page
    assert f"a full audit scores about {MOST:,}, all notes of patients drawn at random" in page


def test_a_rank_correlation_is_signed_and_nought_is_not():
    assert [signed(value) for value in (0.123, -0.284, -0.001, 0.0)] == ["+0.12", "−0.28", "0.00", "0.00"]


def test_figures_are_written_in_their_own_units():
    told = {
        "perplexity_heldout": "4.59",
        "auc_loss": "0.881",
        "exposure:8": "10.0",
        "bits_per_character_heldout": "2.35",
    }
    values = {"perplexity_heldout": 4.591, "auc_loss": 0.8807, "exposure:8": 9.966, "bits_per_character_heldout": 2.345}
    assert {metric: figure_text(metric, value) for metric, value in values.items()} == told
    assert figure_text("privacy_leakage_loss", -0.025) == "−2.5\u00a0%" and figure_text("auc_loss", math.nan) == "–"


def test_canaries_are_told_with_most_copies_and_judged():
    rows = [
        ("exposure:2", "run", 1.0, 0.5, 2.0),
        ("exposure:16", "run", 9.0, 8.0, 9.5),
        ("exposure:16", "heldout", 1.4, 0.6, 2.2),
    ]
    metrics = pd.DataFrame(rows, columns=["metric", "arm", "value", "low", "high"]).assign(n=3, note="")
    (row,) = controls([SimpleNamespace(id="r", metrics=metrics)]).to_dict("records")
    assert (row["metric"], row["verdict"], row["against"]) == ("exposure:16", "exceeds its control", "held out")
    assert "exceeds held out" in part("attacks", "controls", [row], {"r": "A"})


def test_the_audit_fixed_beforehand_is_told_as_such_wherever_it_stands():
    """A cohort without canaries that are one unit each has no such audit: then only the highest bound is told."""
    row = {
        "run": "r",
        "audit": "a",
        "evidence": "one run",
        "correct": 5,
        "trials": 9,
        "epsilon": 0.5,
        "ceiling": 2.0,
        "promised": 8.0,
        "alarm": False,
        "looks": 3,
    }
    looks = pd.DataFrame([row, row | {"audit": "b", "epsilon": 0.9}, row | {"audit": "c", "epsilon": 0.1}])
    html = part("attacks", "bounds", looks.to_dict("records"), {"r": "A"})
    assert html.count("<tr>") == 2 and "<td>b</td>" in html
    fixed = pd.concat([looks, pd.DataFrame([row | {"audit": "first", "epsilon": 0.2, "looks": 1}])])
    html = part("attacks", "bounds", fixed.reset_index(drop=True).to_dict("records"), {"r": "A"})
    assert html.index("<td>first</td>") < html.index("<td>b</td>") and html.count("<tr>") == 3


def test_no_bound_on_epsilon_is_told_without_its_ceiling():
    """In the report's table, its verdict and on Canaries: 0 of at most 1.25 says little about ε = 8."""
    row = {
        "run": "r",
        "audit": "canaries",
        "evidence": "one run",
        "correct": 9,
        "trials": 12,
        "tp": 5,
        "fn": 2,
        "fp": 1,
        "tn": 4,
        "epsilon": 0.0,
        "ceiling": 1.2598,
        "promised": 8.0,
        "alarm": False,
        "looks": 1,
    }
    table = pd.DataFrame([row, row | {"audit": "patients", "epsilon": 0.0, "ceiling": 0.4178, "looks": 2}])
    html = part("attacks", "bounds", table.to_dict("records"), {"r": "A"})
    assert "1.25" in html and "0.417" in html
    for bounds in (table, table.assign(epsilon=[0.0, 0.129])):
        said = AppTest.from_function(_bound_sentences, default_timeout=WAIT, args=(bounds,)).run()
        told = " ".join(one.value for one in said.markdown)
        assert not said.exception and "these trials could show at most 1.25" in told
        assert "could prove at most 0.417" in told, "the further audits have a ceiling of their own"


def _bound_sentences(table):
    from pages.parts.canaries import sentences

    sentences.bound_sentences(table, "note")


def test_every_template_escapes_and_none_marks_anything_as_safe():
    """No filter, tag or call that switches escaping off stands in a template or beside them."""
    folder = Path(html.__file__).parent
    sources = [*(folder / "templates").glob("*.j2"), *folder.glob("*.py")]
    assert len(sources) > 10
    for path in sources:
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe\b|autoescape\s+false|autoescape=False|Markup\(", source), path.name
    assert html._templates.autoescape is True
    assert html._templates.from_string("{{ word }}").render(word="<b>") == "&lt;b&gt;"


def made(*rows: list, spec: RunSpec | None = None, name: str = "run") -> Run:
    """A run with these metrics."""
    metrics = pd.DataFrame(list(rows), columns=COLUMNS)
    return cast(Run, SimpleNamespace(id=name, spec=spec or RunSpec(), metrics=metrics))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], ""),
        ([["known_words", "run", math.nan, math.nan, math.nan]], ""),
        ([["known_words", "run", 0.5, 0.25, 0.75]], " Of the words that it wrote 50 % are known (25 % to 75 %)."),
        (
            [["known_words", "run", 0.5, 0.25, 0.75], ["known_words", "base", 0.9, 0.8, 1.0]],
            " Of the words that it wrote 50 % are known (25 % to 75 %), of the public model's 90 %.",
        ),
    ],
)
def test_known_words_stand_beside_perplexity(rows, said):
    assert _known_words(made(*rows)).replace("\u00a0", " ") == said


def test_the_same_training_without_noise_is_told_with_its_leaks():
    private = made(spec=RunSpec(privacy=PrivacySpec(target_epsilon=8.0), training=TrainingSpec(batch_size=64)))
    plain = made(spec=RunSpec(training=TrainingSpec(batch_size=16)), name="plain")
    control = made(["auc_loss", "run", 0.6, 0.55, 0.65], *LEAKS, name="control")
    apart, without = noise_alone(private, [plain, private], control)
    assert apart.startswith("The two runs differ in more than noise") and "batch 64" in apart and "16" in apart
    assert "with privacy" in apart
    assert "noise. With ε = 8: " in differences([plain, private], with_epsilon=True)
    assert "learning rate" not in apart  # both have the same
    assert without.replace("\u00a0", " ") == (
        "The same training without noise: the loss attack has an AUC by note of 0.600 (95 % interval 0.550 to 0.650); "
        "patients for whom it wrote a direct identifier: 25 % (95 % interval 20 % to 30 %) against 1.0 % (95 % "
        "interval 0 % to 2.0 %) for held-out patients: this is more than chance: the model memorised patients."
    )


def test_two_runs_with_different_learning_rates_differ_in_them_too():
    private = made(
        spec=RunSpec(
            privacy=PrivacySpec(target_epsilon=8.0),
            training=TrainingSpec(epochs=6, batch_size=512, learning_rate=0.0034),
        )
    )
    plain = made(spec=RunSpec(training=TrainingSpec(epochs=8, batch_size=16, learning_rate=0.002)))
    assert differences([plain, private]) == (
        "The two runs differ in more than noise: with privacy 6 epochs, batch 512, learning rate 0.0034, every "
        "gradient clipped; without privacy 8 epochs, batch 16, learning rate 0.002, nothing clipped."
    )
    assert "With ε = 8: 6 epochs, batch 512, learning rate 0.0034, every" in differences(
        [private, plain], with_epsilon=True
    )


def test_nothing_is_said_without_a_control_or_of_a_run_without_privacy():
    private = made(spec=RunSpec(privacy=PrivacySpec(target_epsilon=8.0)))
    assert noise_alone(private, [private], None) == []
    assert noise_alone(private, [private], made()) == [], "a control without figures"
    assert noise_alone(made(name="plain"), [private], made(*LEAKS)) == []


def test_a_run_with_private_words_has_no_control_to_look_for(workspace: Workspace):
    words = RunSpec(
        model=ModelSpec(kind="distilbert"),
        privacy=PrivacySpec(target_epsilon=8.0),
        vocabulary=VocabularySpec(epsilon=1.0),
    )
    run = made(spec=words)
    assert _beside(workspace, run, [run]) == []


def test_only_trainings_of_one_model_on_the_same_notes_are_compared():
    private = made(spec=RunSpec(privacy=PrivacySpec(target_epsilon=8.0), training=TrainingSpec(batch_size=64)))
    masked = made(spec=RunSpec(model=ModelSpec(kind="distilbert"), training=TrainingSpec(batch_size=32)))
    elsewhere = made(spec=RunSpec(corpus=CORPUS_PRESETS["smoke"], training=TrainingSpec(batch_size=32)))
    alike = made(spec=RunSpec(training=TrainingSpec(batch_size=16)))
    assert differences([masked, elsewhere, private]) == ""
    assert "batch 64" in (told := differences([masked, elsewhere, private, alike])) and "batch 16" in told


def test_a_report_looks_for_the_control_that_is_stored(workspace: Workspace, smoke_specs, monkeypatch):
    """The control of the report's private run is the stored run of its own settings without noise."""
    runs = [workspace.run(smoke_specs[name].run_id) for name in ("plain", "dp")]
    asked = smoke_specs["dp"].clipped_spec()
    find = Workspace.find
    monkeypatch.setattr(Workspace, "find", lambda self, spec: runs[0] if spec == asked else find(self, spec))
    told = {one["run"]: " ".join(one["sentences"]) for one in build(workspace, runs).facts["verdict"]}
    assert "The same training without noise: the loss attack" in told[runs[1].id]
    assert "without noise:" not in told[runs[0].id]


def test_the_first_page_says_whose_identifiers_no_figure_counts(workspace, smoke_specs, monkeypatch):
    """A name that two imported patients have is nobody's leak: the share of patients named leaves it out."""
    shared = frozenset({("P0001", "full_name"), ("P0002", "full_name")})
    monkeypatch.setattr(Corpus, "shared_values", property(lambda corpus: shared))
    told, runs = shared_values_sentence(shared), [workspace.run(smoke_specs["plain"].run_id)]
    assert told not in first_page(workspace, runs).facts["open"], "figures of an earlier version count them"
    monkeypatch.setattr("core.evaluation.report.facts.counts_own_values", lambda metrics: True)
    assert told in first_page(workspace, runs).facts["open"]


@pytest.fixture(scope="module")
def reports(workspace, smoke_specs):
    return {name: build(workspace, [workspace.run(smoke_specs[name].run_id)], now=0.0) for name in ("plain", "dp")}


def about(report: Report, **tables: pd.DataFrame) -> Subject:
    run = SimpleNamespace(id=report.facts["subject"]["run"])
    run.spec = RunSpec.model_validate(report.facts["specs"][run.id])
    return Subject.of(cast(Run, run), "A", report.tables | tables, 3)


def test_without_privacy_no_cell_speaks_of_the_noise(reports):
    told = {
        name: " ".join(cell["text"] for one in report.facts["crosswalk"] for cell in one["cells"])
        for name, report in reports.items()
    }
    for words in ("The noise consists of floating-point numbers", "through q and σ", "noise and accounting are"):
        assert words in told["dp"] and words not in told["plain"], words


def test_a_report_without_canaries_does_not_describe_them(reports):
    """Notes of few patients get none."""
    report, metrics = reports["dp"], pd.DataFrame({"metric": ["auc_loss", "exposure:8"]})
    page = html.render(report)
    assert "each inserted or not by a" in page and "have as many copies" not in page and "1.44 bits" in page
    page = html.render(Report(report.facts | {"cohort": report.facts["cohort"] | {"canaries": 0}}, report.tables))
    assert "There are no canaries." in page and "1.44 bits" not in page and "Canaries: 0" not in page
    told = [_not_attacked(cast(Run, SimpleNamespace(id="r", metrics=rows))) for rows in (metrics, metrics.head(1))]
    assert "and exposure of canaries." in told[0] and "canaries" not in told[1]


def test_why_rare_diseases_were_not_compared(reports):
    report = reports["dp"]
    run = report.facts["subject"]["run"]
    few = pd.DataFrame([{"run": run, "attack": "loss", "rarity": "too few held-out patients", "p_corrected": math.nan}])
    none, figures = few.head(0), {run: ["This run has figures only: x."]}
    for trends, said, why in (
        (few, {}, "Not measured: too few held-out patients."),
        (none, figures, "Not measured: this run has figures only: x."),
        (none, {run: []}, "Not measured: no patient has diagnosis codes."),
    ):
        evidence = Evidence(about(report, rarity_trends=trends), report.facts["label"], report.facts | {"rarity": said})
        assert evidence.rarity("x").text == why
    assert "This run has figures only: x." in part("rarity", "rarity", [], [], figures, {run: "A"})
    assert "no patient has diagnosis codes" in part("rarity", "rarity", [], [], {run: []}, {run: "A"})


def test_one_identifier_that_nobody_has_was_not_looked_for(reports):
    hipaa = reports["dp"].tables["hipaa"].copy()
    hipaa.loc[hipaa["number"] == 7, ["tested", "note"]] = ["no", UNKNOWN]
    lines = still_open(about(reports["dp"], hipaa=hipaa), Decision(), audited=True, recommended=True)
    assert any(line.startswith("1 more was not looked for: ") for line in lines)


@pytest.mark.parametrize(("kind", "words"), [("gpt2", "an opening that it continues"), ("bert", "one to be completed")])
def test_a_masked_model_completes_texts(reports, kind, words):
    subject, report = about(reports["dp"]), reports["dp"]
    model = subject.run.spec.model.model_copy(update={"kind": kind})
    subject.run.spec = subject.run.spec.model_copy(update={"model": model})
    told = [cell.text for cell in attacks(Evidence(subject, report.facts["label"], report.facts)).cells]
    assert sum(words in text for text in told) == 1
