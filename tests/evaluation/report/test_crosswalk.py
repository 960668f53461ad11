"""Every cell of the crosswalk is measured with a link that has its target, argued with a text, or open."""

from __future__ import annotations

import math
import re
import shutil
from html.parser import HTMLParser

import pandas as pd
import pytest

from core.evaluation.memorisation.discoverable import by_chance
from core.evaluation.report.crosswalk.cells import Cell, Evidence
from core.evaluation.report.crosswalk.tables import COLUMNS, frameworks
from core.evaluation.report.decision import Decision
from core.evaluation.report.facts import build
from core.evaluation.report.glance import Subject
from core.evaluation.report.html import part, render
from core.phi.fields import HIPAA_IDENTIFIERS
from core.runs.store import Workspace

FILLED = Decision.model_validate(
    {name: f"our {name} <i>" for name in ("recipient", "knowledge", "cost", "accepted", "owner")}
    | {"access": "weights", "review": "2027-01-31"}
)


class Ids(HTMLParser):
    """Every id, and every link with the text of its cell."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if "href" in found else []


@pytest.fixture(scope="module")
def workspace(smoke_workspace, smoke_specs, mark_secret, tmp_path_factory):
    root = tmp_path_factory.mktemp("crosswalk") / "data"
    shutil.copytree(smoke_workspace, root)
    mark_secret(root, smoke_specs["dp"])
    return Workspace(root, shared=())


@pytest.fixture(scope="module")
def made(workspace, smoke_specs):
    """Reports about each kind of run, without and with a decision."""
    runs = {name: workspace.run(smoke_specs[name].run_id) for name in ("plain", "dp", "base")}
    found = {name: build(workspace, [run], now=0.0) for name, run in runs.items()}
    return found | {"signed": build(workspace, [runs["dp"]], now=0.0, decision=FILLED)}


def cells(report) -> dict[tuple[str, str], dict]:
    return {(one["key"], cell["item"]): cell for one in report.facts["crosswalk"] for cell in one["cells"]}


@pytest.mark.parametrize("name", ["plain", "dp", "base", "signed"])
def test_every_cell_is_one_of_three_and_every_link_has_its_target(made, name):
    page = Ids()
    page.feed(render(made[name]))
    assert len(page.ids) == len(set(page.ids)), "an id stands once"
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    for key, cell in cells(made[name]).items():
        assert cell["status"] in ("measured", "argued", "open"), key
        assert len(cell["text"].split()) >= 2 and "nan" not in cell["text"], key
        assert cell["link"] in page.ids or (cell["link"] == "" and cell["status"] != "measured"), key


def test_a_cell_without_evidence_would_be_noticed(made):
    """The same check on a cell that claims a measurement and links nowhere."""
    page = Ids()
    page.feed(render(made["dp"]))
    bad = Cell("question", "measured", "It was measured.", "nowhere")
    assert bad.link not in page.ids


def test_the_frameworks_are_complete(made):
    found = {one["key"]: [cell["item"] for cell in one["cells"]] for one in made["dp"].facts["crosswalk"]}
    assert len(found["nist_sp_800_226_pyramid"]) == 9 and len(found["nist_sp_800_226_hazards"]) >= 12
    safe = found["hipaa_safe_harbor"]
    assert [item.partition(". ")[2] for item in safe[:18]] == list(HIPAA_IDENTIFIERS)
    principles = [item.partition(":")[0] for item in found["hipaa_expert_determination"]]
    assert principles == ["Risk", "Replicability", "Data source availability", "Distinguishability"]
    edpb = found["edpb_opinion_28_2024"]
    assert edpb[:4] == [
        *("Direct extraction", "Probabilistic extraction", "Personal data from queries", "For each data subject")
    ]
    assert "Documentation" in edpb and len(found["ico_motivated_intruder"]) >= 6
    assert all(re.match(r"NISTAML\.0\d\d ", item) for item in found["nist_ai_100_2"])
    table = made["dp"].tables["crosswalk"]
    assert list(table.columns) == list(COLUMNS) and len(table) == len(cells(made["dp"]))


def test_what_is_measured_depends_on_the_run(made):
    key = ("nist_sp_800_226_pyramid", "Privacy parameters")
    assert (cells(made["dp"])[key]["status"], cells(made["plain"])[key]["status"]) == ("measured", "open")
    assert cells(made["dp"])[key]["text"].startswith("ε = 8 at δ")
    needs = cells(made["dp"])[("edpb_opinion_28_2024", "Direct extraction")]
    assert needs["status"] == "open" and "python -m core audit" in needs["text"]
    names = cells(made["dp"])[("hipaa_safe_harbor", "1. Names")]
    row = made["dp"].tables["hipaa"].set_index("number").loc[1]
    assert names["link"] == "hipaa-1" and f"{100 * row['value']:.0f}" in names["text"]


def test_the_board_s_answers_are_arguments_and_escaped(made):
    key = ("hipaa_expert_determination", "Risk: who could identify someone, and how")
    assert cells(made["dp"])[key]["status"] == "open"
    assert cells(made["signed"])[key] == {
        "item": key[1],
        "status": "argued",
        "text": "The board: our recipient <i>",
        "link": "decision",
    }
    assert "<i>" not in render(made["signed"]) and "our knowledge &lt;i&gt;" in render(made["signed"])
    extraction = ("nist_ai_100_2", "NISTAML.031 Model extraction")
    assert (cells(made["dp"])[extraction]["status"], cells(made["signed"])[extraction]["status"]) == ("open", "argued")


def test_delta_is_compared_with_one_over_n_squared(made):
    text = cells(made["dp"])[("nist_sp_800_226_hazards", "δ too large")]["text"]
    units = made["dp"].facts["cohort"]["training_notes"]
    assert f"n = {units} notes" in text and 1 / units**2 < 0.001 and "is above 1/n²" in text


def test_tables_of_a_full_audit_answer_what_a_quick_one_leaves_open(made, workspace, smoke_specs):
    report, run = made["dp"], workspace.run(smoke_specs["dp"].run_id)
    rates = {"run": run.id, "low": 0.0, "high": 0.5, "notes": 9, "patients": 3}
    arms = [(arm, tokens) for arm in ("run", "heldout") for tokens in (8, 32)]
    memorised = [rates | {"arm": arm, "prefix_tokens": tokens, "value": tokens / 100} for arm, tokens in arms]
    probes = [{"run": run.id, "verdict": verdict} for verdict in ("leak", "no leak", "no leak")]
    trends = [{"run": run.id, "attack": "loss", "rarity": "no", "p_corrected": 0.5}]
    tries = [
        {"run": run.id, "field": "full_name", "arm": arm, "figure": figure, "value": value, "low": low, "high": high}
        | {"by_chance": by_chance(301, 129)[1] if figure == "above" else math.nan}
        for arm, figure, value, low, high in (
            ("run", "one_in", 4_180.3, 3_603.0, 5_132.0),
            ("heldout", "one_in", math.inf, math.inf, math.inf),
            ("run", "above", 0.781, 0.756, 0.803),
        )
    ]
    tables = report.tables | {
        "memorised": pd.DataFrame(memorised),
        "tries": pd.DataFrame(tries),
        "probes": pd.DataFrame(probes),
        "rarity_trends": pd.DataFrame(trends),
    }
    about = Subject.of(run, "A", tables, 3)
    found = {
        (one.key, cell.item): cell
        for one in frameworks(Evidence(about, report.facts["label"], report.facts))
        for cell in one.cells
    }
    likely = found[("edpb_opinion_28_2024", "Probabilistic extraction")]
    assert likely.status == "measured" and likely.text.startswith("The median patient's name takes 4,200 tries; 78")
    page = part("attacks", "tries", tries, {run.id: "A"})
    assert "4,200 (3,600 to 5,100)" in page and "ruled out, for half or more" in page and "78\u00a0%" in page
    assert "up to 2.66\u00a0% may be" in likely.text and "without training, up to 2.66\u00a0%" in page
    direct = found[("edpb_opinion_28_2024", "Direct extraction")]
    assert direct.status == "measured" and "After 32 tokens" in direct.text
    assert "32\u00a0% of held-out notes" in direct.text
    assert "1 of 3 identity probes" in found[("nist_ai_100_2", "NISTAML.032 Attribute inference")].text
    rare = found[("hipaa_expert_determination", "Distinguishability: does it single somebody out?")]
    assert (rare.status, rare.link) == ("measured", "rarity") and "leak more? No (“loss”)" in rare.text


def test_the_public_base_model_has_no_patients(made):
    """It read no note, so no sentence of the first page or of a crosswalk may call any patient its own."""
    words = ("its patients", "of its notes", "patients apart")
    for name, says in (("base", False), ("plain", True)):
        facts = made[name].facts
        told = [cell["text"] for cell in cells(made[name]).values()]
        told += [one["note"] for one in facts["crosswalk"]]
        told += [one["answer"] for one in facts["glance"]] + [facts["subject"]["sentence"]]
        assert any(word in text for text in told for word in words) == says, name
    assert "of the cohort's training patients" in str(cells(made["base"]))


def test_nothing_claims_compliance(made):
    for report in made.values():
        text = render(report).lower()
        for sentence in re.findall(r"[^.:;<>]*complian[^.:;<>]*", text):
            assert re.search(r"\b(no|not|does not)\b", sentence), sentence
        assert not re.search(r"\b(is|are|fully) (compliant|anonymous\.|de-identified\.)", text)
