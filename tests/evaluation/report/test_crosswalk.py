"""Every cell of the crosswalk has a status that is true of it, and a measured one links to the row with its figure."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import cast

import pandas as pd
import pytest

from core.common.program import PROGRAM
from core.evaluation.memorisation.discoverable import by_chance
from core.evaluation.report.crosswalk.cells import Cell, Evidence
from core.evaluation.report.crosswalk.nist_dp import LARGEST_DELTA, MEANINGFUL, REPEATABLE_NOISE
from core.evaluation.report.crosswalk.tables import COLUMNS, frameworks
from core.evaluation.report.decision import Decision
from core.evaluation.report.facts import build
from core.evaluation.report.glance import CONTRADICTED, Subject
from core.evaluation.report.html import render
from core.phi.fields import HIPAA_IDENTIFIERS
from core.runs.ledger.choice import Choice
from core.runs.store import Workspace
from core.spec import RunSpec
from tests.evaluation.report.conftest import part

FILLED = Decision.model_validate(
    {name: f"our {name} <i>" for name in ("recipient", "knowledge", "cost", "accepted", "owner")}
    | {"access": "weights", "review": "2027-01-31"}
)


VOID = {"meta", "br", "line", "circle", "polyline"}
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
STATUSES = {"measured", "guaranteed", "recorded", "argued", "open"}
PROMISES = {  # what the accounting says, and not an attack
    *("Privacy parameters", "Unit of privacy", "ε too large to mean much", "Contributions without a bound"),
    *("For each data subject", "Synthetic text without a guarantee"),
}
RECORDS = {
    *(REPEATABLE_NOISE, "Other releases of the same data", "δ too large"),
    *("Protecting records instead of people", "Design: a measure against memorisation"),
    "Settings tuned on private data",
}
AUDITED = "gpt2-2be987fac6e6"


class Page(HTMLParser):
    """Every id with its tag and the text within it, and every link."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.links: list[str] = []
        self._open: list[tuple[str, str]] = []

    @classmethod
    def of(cls, html: str) -> Page:
        page = cls()
        page.feed(html)
        return page

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        name = found.get("id", "")
        if name:
            self.ids.append(name)
            self.tags[name], self.texts[name] = tag, ""
        self.links += [found["href"]] if "href" in found else []
        if tag not in VOID:
            self._open.append((tag, name))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for _, name in self._open:
            if name:
                self.texts[name] += data


def problem(cell: dict, page: Page) -> str:
    """What is wrong with a cell's status, text or link; empty if nothing is."""
    status, link, text = cell["status"], cell["link"], cell["text"]
    if status not in STATUSES or len(text.split()) < 2 or "nan" in text:
        return "no answer"
    if link and link not in page.ids:
        return f"links to {link}, which is nowhere"
    if (cell["item"] in PROMISES and status not in ("guaranteed", "open")) or (
        cell["item"] in RECORDS and status not in ("recorded", "open")
    ):
        return f"is no {status} figure"
    if status == "argued" and not link and len(text.split()) < 6:
        return "argued without a link and without a reason"
    if status in ("measured", "guaranteed", "recorded") and page.tags.get(link) not in ("tr", "td"):
        return f"links to {link or 'nothing'}, which is no row"
    if status == "measured":
        row = page.texts[link]
        told, quoted = set(NUMBER.findall(text)), re.findall("“(.+?)”", text)
        shared = told & set(NUMBER.findall(row))
        if len(shared) < min(2, max(1, len(told) - 1)) and not (not told and any(one in row for one in quoted)):
            return f"the row {link} has other numbers: {row.split()}"
    return ""


@pytest.fixture(scope="module")
def made(workspace, smoke_specs):
    """Reports about each kind of run, without and with a decision."""
    runs = {name: workspace.run(smoke_specs[name].run_id) for name in ("plain", "dp", "base")}
    found = {name: build(workspace, [run], now=0.0) for name, run in runs.items()}
    return found | {"signed": build(workspace, [runs["dp"]], now=0.0, decision=FILLED)}


def cells(report) -> dict[tuple[str, str], dict]:
    return {(one["key"], cell["item"]): cell for one in report.facts["crosswalk"] for cell in one["cells"]}


@pytest.fixture(scope="module")
def audited():
    """The report of a shipped run with its full audit."""
    shipped = Workspace(PROGRAM / "nowhere", shared=(PROGRAM / "assets" / "demo",))
    return build(shipped, [shipped.run(AUDITED)], now=0.0)


def problems(report) -> dict[tuple[str, str], str]:
    page = Page.of(render(report))
    found = {key: problem(cell, page) for key, cell in cells(report).items()}
    return {key: said for key, said in found.items() if said}


@pytest.mark.parametrize("name", ["plain", "dp", "base", "signed"])
def test_every_cell_says_what_it_is_and_links_to_its_figure(made, name):
    page = Page.of(render(made[name]))
    assert len(page.ids) == len(set(page.ids)), "an id stands once"
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert problems(made[name]) == {}


def test_so_do_the_cells_of_a_full_audit(audited):
    page = Page.of(render(audited))
    assert len(page.ids) == len(set(page.ids)) and problems(audited) == {}
    measured = {cell["link"] for cell in cells(audited).values() if cell["status"] == "measured"}
    tables = {link.partition(AUDITED)[0].strip("-") for link in measured if AUDITED in link}
    assert tables == {"controls", "strongest", "memorised", "tries", "probes"}
    assert not measured & {"attacks", "glance", "label", "bounds", "rarity"}, "no whole section"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"link": "nowhere"}, "nowhere"),
        ({"link": "attacks"}, "no row"),
        ({"link": ""}, "no row"),
        ({"text": "AUC 0.123 by patient (0.1 to 0.2); a coin: 0.7."}, "other numbers"),
        ({"status": "argued", "link": "", "text": "It is so."}, "without a reason"),
        ({"item": "Privacy parameters"}, "no measured figure"),
        ({"item": "Other releases of the same data"}, "no measured figure"),
        ({"status": "certain"}, "no answer"),
    ],
)
def test_a_cell_that_claims_more_than_it_has_is_noticed(made, change, said):
    cell = cells(made["dp"])[("ico_motivated_intruder", "Membership: was this patient trained on?")]
    page = Page.of(render(made["dp"]))
    assert cell["status"] == "measured" and problem(cell, page) == ""
    assert said in problem(cell | change, page)


def test_no_promise_covers_what_a_filter_with_known_values_blacks_out(workspace, smoke_specs, made):
    run = workspace.run(smoke_specs["dp"].run_id)
    key = ("nist_sp_800_226_hazards", "Synthetic text without a guarantee")
    behind = build(workspace, [run], now=0.0, decision=FILLED.model_copy(update={"access": "filtered api"}))
    assert cells(made["dp"])[key]["status"] == "guaranteed" and problems(behind) == {}
    assert cells(behind)[key]["status"] == "open" and "no ε covers that" in cells(behind)[key]["text"]


def test_the_frameworks_are_complete(made):
    found = {one["key"]: [cell["item"] for cell in one["cells"]] for one in made["dp"].facts["crosswalk"]}
    assert len(found["nist_sp_800_226_pyramid"]) == 9 and len(found["nist_sp_800_226_hazards"]) >= 12
    safe = found["hipaa_safe_harbor"]
    assert [item.partition(". ")[2] for item in safe[:18]] == list(HIPAA_IDENTIFIERS)
    principles = [item.partition(":")[0] for item in found["hipaa_expert_determination"]]
    assert principles == [
        *("Anticipated recipient", "Replicability", "Data source availability", "Distinguishability", "Assess risk")
    ]
    edpb = found["edpb_opinion_28_2024"]
    assert edpb[:4] == [
        *("Direct extraction", "Probabilistic extraction", "Personal data from queries", "For each data subject")
    ]
    assert "Documentation" in edpb and len(found["ico_motivated_intruder"]) >= 6
    named = [item for item in found["nist_ai_100_2"] if not item.startswith("Attribute inference")]
    assert all(re.match(r"NISTAML\.0\d\d ", item) for item in named)
    assert {item[8:11] for item in named} == {*("015", "018", "023"), *(f"03{n}" for n in range(1, 10))}
    table = made["dp"].tables["crosswalk"]
    assert list(table.columns) == list(COLUMNS) and len(table) == len(cells(made["dp"]))


def test_what_is_measured_depends_on_the_run(made):
    key = ("nist_sp_800_226_pyramid", "Privacy parameters")
    assert (cells(made["dp"])[key]["status"], cells(made["plain"])[key]["status"]) == ("guaranteed", "open")
    assert cells(made["dp"])[key]["text"].startswith("ε = 8 at δ")
    other = ("nist_sp_800_226_hazards", "Other releases of the same data")
    assert cells(made["dp"])[other]["status"] == "recorded" and "No release" in cells(made["dp"])[other]["text"]
    needs = cells(made["dp"])[("edpb_opinion_28_2024", "Direct extraction")]
    assert needs["status"] == "open" and "python -m core audit" in needs["text"]
    names = cells(made["dp"])[("hipaa_safe_harbor", "1 (A). Names")]
    row = made["dp"].tables["hipaa"].set_index("number").loc[1]
    assert names["link"] == "hipaa-1" and f"{100 * row['value']:.0f}" in names["text"]


def test_the_board_s_answers_are_arguments_and_escaped(made):
    key = ("hipaa_expert_determination", "Anticipated recipient: who gets it?")
    assert cells(made["dp"])[key]["status"] == "open"
    assert cells(made["signed"])[key] == {
        "item": key[1],
        "status": "argued",
        "text": "The board: our recipient <i>",
        "link": "decision-recipient",
    }
    assert "<i>" not in render(made["signed"]) and "our knowledge &lt;i&gt;" in render(made["signed"])
    extraction = ("nist_ai_100_2", "NISTAML.031 Model extraction")
    assert (cells(made["dp"])[extraction]["status"], cells(made["signed"])[extraction]["status"]) == ("open", "argued")


def test_delta_is_compared_with_one_over_n_squared(made):
    key = ("nist_sp_800_226_hazards", "δ too large")
    cell = cells(made["dp"])[key]
    units = made["dp"].facts["cohort"]["training_notes"]
    assert f"n = {units} notes" in cell["text"] and 1 / units**2 < 0.001 and "is above 1/n²" in cell["text"]
    assert cell["status"] == "open", "the hazard applies: that is no green line"
    assert "above 10⁻⁵, too" in cell["text"]
    least = min(1 / units**2, LARGEST_DELTA)
    small = again(made["dp"], made["dp"].facts["label"] | {"delta": least})[key]
    assert small.status == "recorded" and "is at most 1/n²" in small.text and "too" not in small.text
    few = again(made["dp"], made["dp"].facts["label"] | {"delta": 2 * LARGEST_DELTA})[key]
    assert few.status == "open" and "is at most 1/n²" in few.text and few.text.endswith("It is above 10⁻⁵.")
    cohort = made["dp"].facts["cohort"]
    planted, people = cohort["canaries_planted"], cohort["training_patients"]
    assert people == cohort["patients"]["member"] and 0 < planted < cohort["canaries"]
    each = again(made["dp"], made["dp"].facts["label"] | {"unit": "patient", "delta": 1 / people**2})[key]
    assert f"(n = {people + planted} patients, {planted} planted canaries among them)" in each.text
    assert each.status == "open", "a planted canary is a unit of the mechanism, too"


def again(report, label=None, about: Subject | None = None, **facts) -> dict[tuple[str, str], Cell]:
    """The cells of a report with another label, subject or facts."""
    evidence = Evidence(about or subject(report), label or report.facts["label"], report.facts | facts)
    return {(one.key, cell.item): cell for one in frameworks(evidence) for cell in one.cells}


def subject(report, **model) -> Subject:
    run = SimpleNamespace(id=report.facts["subject"]["run"])
    found = Subject.of(run, "A", report.tables, report.facts["cohort"]["most_training_notes_of_a_patient"])
    spec = RunSpec.model_validate(report.facts["specs"][run.id])
    return replace(found, run=SimpleNamespace(id=run.id, spec=spec), model=dict(found.model) | model)


def test_a_hazard_that_applies_is_open_in_spite_of_the_guarantee(made):
    """Notes of one patient count singly, or an ε limits nothing: neither is what a guarantee answers."""
    many = ("nist_sp_800_226_hazards", "Protecting records instead of people")
    assert cells(made["dp"])[many]["status"] == "open" and "this means ε" in cells(made["dp"])[many]["text"]
    report = made["dp"]
    assert again(report, about=subject(report, unit="patient"))[many].status == "recorded"
    assert again(report, about=replace(subject(report), most_notes=1))[many].status == "recorded"
    large = ("nist_sp_800_226_hazards", "ε too large to mean much")
    assert cells(report)[large]["status"] == "guaranteed"
    assert again(report, report.facts["label"] | {"epsilon": MEANINGFUL * 1.01})[large].status == "open"
    unbounded = ("nist_sp_800_226_hazards", "Contributions without a bound")
    assert cells(report)[unbounded]["status"] == "open" and "is not bounded" in cells(report)[unbounded]["text"]
    assert again(report, about=replace(subject(report), most_notes=1))[unbounded].status == "guaranteed"


def test_an_epsilon_that_limits_nothing_bounds_no_patient(made):
    report, each = made["dp"], ("edpb_opinion_28_2024", "For each data subject")
    label = report.facts["label"] | {"unit": "patient"}
    assert cells(report)[each]["status"] == "open" and "shares and averages" in cells(report)[each]["text"]
    assert again(report, label)[each].status == "guaranteed"
    empty = report.facts["subject"] | {"verdict": "empty"}
    assert "too large" in again(report, label, subject=empty)[each].text
    assert again(report, label, subject=empty)[each].status == "open"


def test_noise_that_anyone_can_repeat_is_an_open_hazard(made):
    report, key = made["dp"], ("nist_sp_800_226_hazards", REPEATABLE_NOISE)
    assert cells(report)[key]["status"] == "recorded"
    assert again(report, about=subject(report, noise_source="seed"))[key].status == "open"


def test_a_choice_that_the_ledger_has_is_recorded(made):
    report, key = made["dp"], ("nist_sp_800_226_hazards", "Settings tuned on private data")
    assert cells(report)[key]["status"] == "open"
    chosen = Choice.of(10.0, 0.0, "loss on public notes")
    found = again(report, about=replace(subject(report), choice=chosen))[key]
    assert found.status == "recorded" and "best of 10 expected runs" in found.text


def test_an_alarm_leaves_nothing_guaranteed(made):
    """An attack proves more than ε allows, so no cell may say that the mechanism guarantees anything."""
    report = made["dp"]
    rows = report.tables["bounds"].assign(alarm=True)
    about = replace(subject(report), tables=report.tables | {"bounds": rows})
    assert about.protected and about.alarmed
    before, after = again(report), again(report, about=about)
    changed = {key for key, cell in before.items() if cell.status == "guaranteed"}
    assert len(changed) >= 4 and all(after[key].status == "open" for key in changed)
    assert all(after[key].text == CONTRADICTED and after[key].link == "fact-audit" for key in changed)
    assert not any(cell.status == "guaranteed" for cell in after.values())
    correct = ("nist_sp_800_226_pyramid", "Algorithms and correctness")
    assert (before[correct].status, after[correct].status) == ("argued", "open")


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
    assert "1 of 3 identity probes" in found[("nist_ai_100_2", "Attribute inference (no number; beside 032)")].text
    rare = found[("hipaa_expert_determination", "Distinguishability: does it set one person apart?")]
    assert (rare.status, rare.link) == (
        "open",
        f"rarity-{run.id}-loss",
    ) and "leak more? No, by the loss attack." in rare.text


def test_canaries_are_told_with_their_number_and_those_that_are_their_control(made):
    """A mean of four canaries says nothing without its interval, and other pages have another control."""
    row = {"run": made["dp"].facts["subject"]["run"], "metric": "exposure:8"}
    row |= {"value": 9.97, "low": 4.4, "high": 9.97, "n": 4}
    row |= {"heldout_value": 1.1, "heldout_low": 0.54, "heldout_high": 1.7, "heldout_n": 8}
    about = SimpleNamespace(run=SimpleNamespace(id=row["run"]), tables={"controls": pd.DataFrame([row])})
    told = Evidence(cast(Subject, about), {}, {}).exposure("x").text
    assert told == (
        "Canaries planted 8 times have an exposure of 10.0 bits (95\u00a0% interval 4.4 to 10.0, n = 4); those left "
        "out that would have been planted 8 times, of 1.1 bits (95\u00a0% interval 0.5 to 1.7, n = 8)."
    )
    assert "about one in ten intervals of so few" in render(made["dp"])


def test_with_public_noise_the_fact_that_was_asked_for_comes_first():
    about = cast(Subject, SimpleNamespace(holds=False, alarmed=False))
    evidence = Evidence(about, {"unit": "note"}, {})
    cell = evidence.guaranteed("x", "ε = 8 at δ = 10⁻⁵.", "label-epsilon")
    assert cell.text == "ε = 8 at δ = 10⁻⁵. Shown, not promised: its noise came from a public seed."
    assert cell.status == "open" and evidence.guaranteed("x", "If its noise were secret, y.", "").text[-2:] == "y."


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
