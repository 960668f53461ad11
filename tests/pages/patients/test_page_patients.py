"""The Patients page, driven without a browser, over runs that the real pipeline made."""

from __future__ import annotations

import dataclasses
import math
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from core.evaluation.memorisation.note_heat import Token
from core.evaluation.rarity.leakage import COLUMNS
from core.models import shipped_bases
from core.runs.patients.queries import Filters
from core.runs.store import Workspace
from core.runs.tables import write_table
from core.spec import DefenceSpec, VocabularySpec
from pages.parts.patients import card, charts, controls, heat, views
from pages.parts.patients import data as patient_data
from pages.parts.patients.data import Choice
from pages.parts.session import owner, resources
from tests.pages.visit import said, visit

opened = partial(visit, "patients")


@pytest.fixture(scope="module")
def leaky(smoke_workspace, smoke_specs, tmp_path_factory):
    """A data folder whose run without privacy wrote a member's name and, by coincidence, a held-out patient's."""
    root = tmp_path_factory.mktemp("leaky-patients") / "data"
    shutil.copytree(smoke_workspace, root)
    workspace = Workspace(root, shared=())
    run = workspace.run(smoke_specs["plain"].run_id)
    people = workspace.corpus(run.spec.corpus).patients.set_index("split")["patient_id"]
    member, other = people["member"].iloc[0], people["heldout"].iloc[0]
    rows = [
        (0, 0, 7, "full_name", "<b>Ann", "leak", member, "member"),
        (1, 0, 7, "full_name", "Bea Lee", "coincidence", other, "heldout"),
    ]
    columns = ["generation_id", "start", "end", "field", "value", "kind", "patient_id", "split"]
    write_table(run.folder / "tables", "hits", pd.DataFrame(rows, columns=columns).assign(rule="value"))
    texts = {
        "generation_id": [0, 1],
        "prompt_id": 1,
        "prompt": "Patient:",
        "seed": 0,
        "text": ["<b>Ann</b> is here", "Bea Lee"],
    }
    write_table(run.folder / "tables", "generations", pd.DataFrame(texts))
    return root, run.id, member, other


@pytest.fixture
def data(leaky, monkeypatch):
    monkeypatch.setenv("PHILAB_DATA", str(leaky[0]))
    return leaky


def table_with(app, column: str) -> pd.DataFrame:
    return next(frame.value for frame in app.dataframe if column in frame.value.columns)


def test_without_runs_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    assert any("Train one" in info.value for info in opened().info)


def test_the_first_view_answers_its_question(data):
    app = opened(run=data[1])
    assert "leak more than others" in said(app)
    assert any("Too few patients to compare" in info.value for info in app.info), "24 patients are no two buckets"
    assert any(
        "One bucket with all patients: there are too few for several" in caption.value for caption in app.caption
    )
    assert app.selectbox(key="attack").value == "ratio base"
    listed = table_with(app, "caught by")
    assert any(f"**{24} patients**" in text.value for text in app.markdown) and len(listed) == patient_data.PAGE_SIZE
    assert app.get("download_button") and any(one.label.startswith("How is this computed") for one in app.expander)


def test_a_link_restores_everything(data):
    _, run, member, _ = data
    app = opened(
        run=run, judge="patient", attack="loss", age_from="1", notes_from="1", patient=member, field="full_name"
    )
    assert app.text_input(key="patient").value == member and app.number_input(key="age_from").value == 1
    assert app.selectbox(key="field").value == "full_name"
    listed = table_with(app, "caught by")
    assert set(listed["patient"]) == {data[2], data[3]}, "the field's member, and the held-out control"
    assert any("Only patients with an extracted full name" in caption.value for caption in app.caption)


def test_one_patient_with_evidence_and_what_privacy_changes(data, smoke_specs):
    _, run, member, _ = data
    app = opened(run=run, patient=member)
    assert f"Patient {member}, member (trained on)" in [header.value for header in app.header]
    assert "**Extracted by prompts**: full name." in said(app)
    html = " ".join(element.proto.body for element in app.get("html"))
    assert "&lt;b&gt;Ann" in html and "<b>Ann" not in html, "what a model wrote is text and never markup"
    assert f"leak: full name of patient {member}" in html
    beside = table_with(app, "texts with a leak")
    assert set(beside["run"]) == {smoke_specs[name].run_id for name in ("plain", "dp")}, "the ratio needs another model"
    by_loss = table_with(opened(run=run, patient=member, attack="loss"), "texts with a leak")
    assert set(by_loss["run"]) == {spec.run_id for spec in smoke_specs.values()}
    assert beside.set_index("run").loc[run, "texts with a leak"] == 1
    codes = table_with(app, "disease")
    record = patient_data.tables(Workspace(data[0], shared=()).run(run)).record(member)
    assert set(codes["code"]) == set(record["icd_codes"])


def test_the_age_on_the_card_has_its_day(data, monkeypatch):
    """The notes give the age on their own dates, up to years earlier; uploaded records name no day."""
    run = Workspace(data[0], shared=()).run(data[1])
    record = patient_data.tables(run).record(data[2])
    sex = {"F": "woman", "M": "man"}[record["sex"]]
    assert f"A {sex} aged {record['age']} on 1 January 2023 with" in said(opened(run=data[1], patient=data[2]))
    uploaded = SimpleNamespace(spec=SimpleNamespace(corpus=SimpleNamespace(imported="0123abcd")))
    assert card.who({"sex": "F", "age": 35.0}, uploaded) == "A woman aged 35"
    assert card.who({"sex": "M", "age": 5.0}, uploaded) == "A boy aged 5"
    assert card.who({"sex": None, "age": math.nan}, uploaded) == "A patient of unknown age"


def test_a_held_out_patients_find_is_called_a_coincidence(data):
    assert "by coincidence (the control)" in said(opened(run=data[1], patient=data[3]))


@pytest.mark.parametrize(("who", "words"), [("nobody", "no patient “nobody”"), ("<b>", "no patient “<b>”")])
def test_an_unknown_patient_gets_a_sentence(data, who, words):
    told = [info.value for info in opened(run=data[1], patient=who).info]
    assert any(words in one.replace("\\", "") for one in told) and not any("<b>" in one for one in told)


def test_a_patient_is_found_by_an_id_in_lower_case_and_by_a_full_name(data):
    _, run, member, _ = data
    tables = patient_data.tables(Workspace(data[0], shared=()).run(run))
    name = tables.record(member)["full_name"]
    assert tables.ids_of(member) == tables.ids_of(member.lower()) == tables.ids_of(name.upper()) == [member]
    assert tables.ids_of("nobody") == []
    app = opened(run=run, patient=member.lower())
    assert f"Patient {member}, member (trained on)" in [header.value for header in app.header]


def test_a_list_with_a_part_of_the_cohort_says_so(smoke_workspace, smoke_specs):
    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["plain"].run_id)
    choice = Choice(run, "loss", "patient", Filters())
    assert views.part_of_cohort(choice, 20) == ("20 of 24 members and held-out patients: the attack was run on these.")
    assert not views.part_of_cohort(choice, 24)
    assert not views.part_of_cohort(dataclasses.replace(choice, filters=Filters(youngest=40)), 20)


def test_a_patient_without_a_score_still_has_notes(data, monkeypatch):
    monkeypatch.setattr(patient_data, "patient", lambda *given, **options: None)
    app = opened(run=data[1], patient=data[2])
    assert any(f"has no score for patient {data[2]}" in info.value for info in app.info)
    notes = patient_data.tables(Workspace(data[0], shared=()).run(data[1])).notes_of(data[2])
    assert any(one.value.startswith(f"### {len(notes)} note") for one in app.markdown)


def test_filters_that_leave_nobody_say_so(data):
    app = opened(run=data[1], code="ZZZ")
    assert any("No patient matches these filters" in info.value for info in app.info)
    assert not app.get("plotly_chart")


def test_the_heat_line_is_there_with_weights_and_explained_without(data, smoke_specs):
    app = opened(run=data[1], patient=data[2], heat="true")
    assert any('class="heat"' in element.proto.body for element in app.get("html"))
    assert any("nats per token" in caption.value for caption in app.caption)
    shutil.rmtree(data[0] / "runs" / smoke_specs["dp"].run_id / "model")
    app = opened(run=smoke_specs["dp"].run_id, patient=data[2])
    assert any("weights, which are not stored" in caption.value for caption in app.caption)
    assert next(one for one in app.toggle if one.key == "heat").disabled


def test_a_missing_base_model_leaves_the_notes_without_colours(data, tmp_path, monkeypatch):
    resources.empty_caches()  # an earlier test may have loaded it
    monkeypatch.setattr(shipped_bases, "BASE_MODELS", tmp_path)
    app = opened(run=data[1], patient=data[2], heat="true")
    (error,) = app.error
    assert "is not shipped" in error.value and "python \\-m core pretrain" in error.value
    assert not any('class="heat"' in element.proto.body for element in app.get("html"))
    notes = [element.proto.body for element in app.get("html") if "phi-" in element.proto.body]
    assert notes, "the notes are there all the same"


DEMO = Path(__file__).resolve().parents[3] / "assets" / "demo"
SHIPPED = "gpt2-2be987fac6e6"  # ε = 8 per note, with a full audit


@pytest.mark.parametrize("beside", ["other ε", "other models", "other attacks"])
def test_several_runs_or_attacks_side_by_side(monkeypatch, tmp_path, beside):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    monkeypatch.setenv("PHILAB_SHIPPED", str(DEMO))
    app = opened(run=SHIPPED, beside=beside)
    table = table_with(app, "rarity")
    if beside == "other attacks":
        assert table["attack"].tolist()[:2] == ["ratio base", "loss"] and len(table) == 11
    elif beside == "other ε":
        assert table["run"].iloc[-1] == "no privacy" and len(table) > 4
        assert not table["run"].str.startswith("public model").any(), "it cannot be compared with itself"
    assert "Does rarity change what leaks? **No trend found** (" in said(app)
    assert not any(text.value.startswith("## ") for text in app.markdown), "the answer of the single run is not theirs"
    assert {"no trend found"} <= set(table["rarity"]) and app.get("plotly_chart")


def test_the_answer_stands_above_the_picture_and_a_bucket_lists_its_patients(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    monkeypatch.setenv("PHILAB_SHIPPED", str(DEMO))
    app = opened(run=SHIPPED, bucket="1")
    headings = [text.value for text in app.markdown if text.value.startswith("## ")]
    assert headings == [
        "## Under the likelihood ratio to the public model (ratio base), the data do not show whether rarer patients "
        "leak more or less."
    ]
    assert any("above 0 means that rarer patients leak more" in caption.value for caption in app.caption)
    assert app.get("plotly_chart") and any("**86 patients** in bucket 1" in text.value for text in app.markdown)
    rarer = table_with(app, "rarer than")["rarer than"]
    assert (rarer > 0.79).all()


def test_how_often_lira_catches_a_patient_is_in_the_list_and_on_the_card_beside_its_control(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    monkeypatch.setenv("PHILAB_SHIPPED", str(DEMO))
    stored = pd.read_parquet(DEMO / "audits" / SHIPPED / "tables" / "shadow_patients" / "lira.parquet")
    one = stored.set_index("patient_id")
    app = opened(run=SHIPPED, bucket="1")
    table = table_with(app, "rarer than")
    assert [f"{one.caught[name]} of {one.read[name]}" for name in table["patient"]] == table["LiRA: caught in"].tolist()
    name = table["patient"].iloc[0]
    row = one.loc[name]
    card = opened(run=SHIPPED, patient=name)
    assert any(
        f"in {row['caught']} of {row['read']} models that read their notes" in text.value
        and f"in {row['accused']} of {row['unread']} that did not" in text.value
        for text in card.markdown
    )


def test_without_shadow_models_lira_has_no_column(data):
    app = opened(run=data[1], bucket="1")
    assert "LiRA: caught in" not in table_with(app, "rarer than")
    assert not any("LiRA on models" in text.value for text in app.markdown)


def test_admissions_can_be_judged(data):
    app = opened(run=data[1], judge="admission")
    assert (
        any("One bucket with all admissions" in caption.value for caption in app.caption)
        and table_with(app, "caught by").size
    )


# Parts ---------------------------------------------------------------------------------------------------------------


def test_csv_of_a_bucket_has_everybody_and_joined_lists(data, monkeypatch):
    run = Workspace(data[0], shared=()).run(data[1])
    choice = Choice(run, "loss", "patient", Filters())
    everybody = patient_data.every_patient(choice, None)
    monkeypatch.delattr(owner, "workspace")  # a download is made outside of the session, which alone has a viewer
    frame = views.for_csv(everybody())
    assert len(frame) == 24 and "total" not in frame and frame["profile"].str.contains(r"^[A-Z]\d").all()


def test_the_csv_says_what_the_list_says_under_the_same_names(data, monkeypatch):
    run = Workspace(data[0], shared=()).run(data[1])
    choice = Choice(run, "loss", "patient", Filters())
    monkeypatch.setattr(owner, "workspace", lambda: Workspace(data[0], shared=()))
    found = patient_data.every_patient(choice, None)()
    page, file = views.shown(found, run), views.for_csv(found)
    rarest = found["log_probability"].idxmin()
    assert file["rarer than"].idxmax() == rarest, "the rarest profile is rarer than most, and not than fewest"
    for name in ("rarer than", "score percentile"):
        assert file[name].tolist() == page[name].tolist()
    for name in ("patient", "group", "notes", "extracted", "texts"):
        assert file[name].tolist() == page[name].tolist()
    both = zip(file["caught by"], file["attacks"], strict=True)
    assert [f"{caught} of {attacks}" for caught, attacks in both] == page["caught by"].tolist()


def test_the_name_of_the_csv_says_whose_list_it_is(data):
    run = Workspace(data[0], shared=()).run(data[1])
    choice = Choice(run, "ratio base", "patient", Filters())
    assert views.csv_name(choice, "all buckets") == f"patients-{run.id}-ratio-base-per-patient-all-buckets"
    aged = dataclasses.replace(choice, filters=Filters(youngest=40))
    assert views.csv_name(aged, "bucket 1") == f"patients-{run.id}-ratio-base-per-patient-bucket-1-filtered"


def test_profiles_outlive_the_patients_they_were_made_from(data):
    run = Workspace(data[0], shared=()).run(data[1])
    choice = Choice(run, "loss", "patient", Filters())
    before = patient_data.every_patient(choice, None)()
    for number in range(5):  # more cohorts than are kept
        patient_data._tables(f"another cohort {number}")
    pd.testing.assert_frame_equal(patient_data.every_patient(choice, None)(), before)
    assert patient_data.patient(run, "loss", data[2])["patient_id"] == data[2]


def figures() -> pd.DataFrame:
    row = {name: 0.5 for name in COLUMNS} | {"bucket": 3, "members": 30, "heldout": 24, "kept": True, "auc": 0.8}
    return pd.DataFrame([row, row | {"bucket": 4, "kept": False, "auc": np.nan}, row | {"bucket": 5, "auc": 0.4}])


def test_bars_begin_at_a_blind_guess_and_the_chosen_one_stands_out():
    figure = charts.bars(figures(), figures(), 5)
    assert list(figure.data[0].x) == [4, 6] and list(figure.data[0].y) == pytest.approx([0.3, -0.1])
    assert figure.data[0].base == 0.5 and list(figure.data[0].marker.opacity) == [0.55, 1.0]
    assert [trace.name for trace in figure.data[1:]] == ["public model (control)", "random guessing"]
    both = charts.lines({"a": figures(), "b": figures()}, {"b": "#111111"})
    assert list(both.data[0].error_y.array) == pytest.approx([-0.3, 0.1]), "up to the upper end of each, here 0.5"
    assert [trace.name for trace in both.data] == ["a", "b", "random guessing"] and both.data[1].line.color == "#111111"


def test_levels_show_how_rarity_moves_members_and_held_out_patients():
    table = figures().assign(members_percentile=[0.7, np.nan, 0.9], heldout_percentile=[0.4, np.nan, 0.6])
    members, others = charts.levels(table).data
    assert (members.name, list(members.x), list(members.y)) == ("members", [4, 6], [0.7, 0.9])
    assert (others.name, list(others.x), list(others.y)) == ("held-out patients", [4, 6], [0.4, 0.6])


def test_buckets_without_a_figure_are_told():
    choice = Choice(None, "loss", "patient", Filters(code="E11"))
    told = views.spread(figures(), choice)
    assert told.startswith("3 buckets with about equally many patients") and "1 with fewer than 20 members" in told
    assert "has no figure (54 patients" in told and told.endswith("Only patients with an ICD code starting with E11.")


def test_heat_is_escaped_and_as_strong_as_the_gain():
    tokens = [Token(0, 3, 9.0), Token(4, 7, -9.0), Token(8, 9, 0.1)]
    html = heat.heat_html("<i> b&b x\u202e", tokens)
    assert 'class="learned5" title="+9.0 nats">&lt;i&gt;</span>' in html and 'class="unlearned5"' in html
    assert "b&amp;b" in html and "\u202e" not in html
    assert heat.summary("<i> b&b x", tokens).startswith("Mean gain +0.03 nats per token over 3 tokens")


def test_filters_in_words():
    assert controls.filters_text(Filters()) == ""
    assert controls.filters_text(Filters("e11", 40, None, None, 5, "mrn")) == (
        "an ICD code starting with E11, an extracted medical record number, at least 40 years of age, "
        "up to 5 scored notes"
    )


def test_who_stands_beside_a_run(smoke_workspace, smoke_specs):
    runs = Workspace(smoke_workspace, shared=()).runs()
    plain = next(run for run in runs if run.id == smoke_specs["plain"].run_id)
    other_seed = dataclasses.replace(
        plain, spec=plain.spec.model_copy(update={"training": plain.spec.training.model_copy(update={"seed": 9})})
    )
    beside = patient_data.other_epsilons(plain, [other_seed, *runs])
    assert [patient_data.epsilon(run) for run in beside] == [0.0, 8.0, float("inf")] and beside[-1] is plain
    bert = dataclasses.replace(
        plain, spec=plain.spec.model_copy(update={"model": plain.spec.model.model_copy(update={"kind": "bert"})})
    )
    assert [run.spec.model.kind for run in patient_data.other_models(plain, [bert, *runs])] == ["bert", "gpt2"]


def alike(run, *, trained: float = 0.0, **parts):
    """The run with other parts of its spec, finished so much later."""
    finished = run.status.model_copy(update={"finished": run.status.finished + trained})
    return dataclasses.replace(run, spec=run.spec.model_copy(update=parts), status=finished)


def test_a_run_on_other_notes_stands_in_for_none(smoke_workspace, smoke_specs):
    runs = {run.id: run for run in Workspace(smoke_workspace, shared=()).runs()}
    plain, dp, base = (runs[smoke_specs[name].run_id] for name in ("plain", "dp", "base"))
    scrubbed = alike(plain, trained=60.0, defence=DefenceSpec(scrub_recall=0.95))
    every = [scrubbed, plain, dp, base]
    assert patient_data.other_epsilons(dp, every) == [base, dp, plain]
    assert patient_data.other_epsilons(scrubbed, every) == [base, scrubbed]
    bert = plain.spec.model.model_copy(update={"kind": "bert"})
    own, theirs = alike(plain, model=bert), alike(scrubbed, model=bert)
    assert patient_data.other_models(plain, [theirs, scrubbed, own, plain]) == [own, plain]
    assert patient_data.other_models(plain, [theirs, scrubbed, plain]) == [plain]
    leaflets, hub = (alike(plain, model=bert.model_copy(update={"base": base})) for base in ("assets", "bert-large"))
    assert patient_data.other_models(plain, [leaflets, hub, plain]) == [plain], "they have read other public text"
    of_hub = alike(plain, model=plain.spec.model.model_copy(update={"base": "gpt2"}))
    assert patient_data.other_models(of_hub, [hub, plain, own, of_hub]) == [hub, of_hub], "names differ by kind"


def test_words_of_its_own_are_another_model_but_for_what_they_cost(smoke_workspace, smoke_specs):
    runs = {run.id: run for run in Workspace(smoke_workspace, shared=()).runs()}
    plain, base = runs[smoke_specs["plain"].run_id], runs[smoke_specs["base"].run_id]
    words = alike(plain, trained=60.0, vocabulary=VocabularySpec(pieces=100))
    assert patient_data.other_epsilons(base, [words, base]) == [base], "no other ε: another word list"
    assert patient_data.other_epsilons(words, [plain, words, base]) == [base, words]
    priced = alike(runs[smoke_specs["dp"].run_id], vocabulary=VocabularySpec(pieces=100, words=20, epsilon=1.0))
    assert patient_data.other_epsilons(priced, [words, base]) == [base, words]
    assert patient_data.other_models(plain, [words]) == []
