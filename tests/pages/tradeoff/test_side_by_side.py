"""ε trade-off: the same prompt at every ε, the models beside a private run, sizes, and the reader's test."""

from __future__ import annotations

import html
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from streamlit.runtime.state.query_params import QueryParams
from streamlit.testing.v1 import AppTest

from core.evaluation.stats.bootstrap import Interval
from core.evaluation.sweep import beside, sweeps
from core.evaluation.sweep.sizes import rounded
from core.evaluation.sweep.sweeps import sweeps_of
from core.runs.store import Workspace
from core.spec import RunSpec
from pages.parts.pickers import linked_choice
from pages.parts.tradeoff import hospital_size, sweep_choice, three_models
from pages.parts.tradeoff.models import Models
from pages.parts.tradeoff.real_or_written import REAL_NOTES, STATE
from pages.parts.tradeoff.same_prompt import NOT_KEPT
from tests.pages.visit import WAIT, said, visit

WORSE = {"clipped": 80.0, "large": 60.0}  # perplexities of the runs that are copied


def copy(data: Path, spec: RunSpec, copied: RunSpec, perplexity: float | None = None) -> None:
    """A finished run: the files of `copied` under `spec`, perhaps with another perplexity on held-out notes."""
    folder = data / "runs" / spec.run_id
    shutil.copytree(data / "runs" / copied.run_id, folder)
    (folder / "spec.json").write_text(spec.model_dump_json())
    if not spec.privacy.private:
        (folder / "privacy.json").unlink(missing_ok=True)
    if perplexity is not None:
        path = folder / "tables" / "metrics.parquet"
        table = pd.read_parquet(path)
        own = (table["metric"] == "perplexity_heldout") & (table["arm"] == "run")
        table.loc[own, ["value", "low", "high"]] = [perplexity, perplexity - 1, perplexity + 1]
        table.to_parquet(path)


@pytest.fixture
def compared(monkeypatch, smoke_workspace, smoke_specs, tmp_path) -> Path:
    """The smoke runs, the private one's control without noise, and the same curve of a hospital twice as large."""
    data = tmp_path / "data"
    shutil.copytree(smoke_workspace, data)
    monkeypatch.setenv("PHILAB_DATA", str(data))
    copy(data, smoke_specs["dp"].clipped_spec(), smoke_specs["dp"], WORSE["clipped"])
    for name in ("base", "plain", "dp"):
        spec = smoke_specs[name]
        corpus = spec.corpus.model_copy(update={"patients": 2 * spec.corpus.patients})
        larger = spec.model_copy(update={"corpus": corpus})
        copy(data, larger, spec, WORSE["large"] if name == "dp" else None)
    return data


def texts(app) -> list[str]:
    """Every block of generated text on the page, as HTML."""
    return [element.value for element in app.html if 'class="phi-text"' in element.value]


def stored(data: Path, spec: RunSpec, prompt: str, attempt: int) -> str:
    rows = Workspace(data, shared=()).run(spec.run_id).table("generations")
    return rows[rows["prompt"] == prompt]["text"].iloc[attempt - 1]


def shows(block: str, text: str) -> bool:
    """Whether a block of HTML holds a text, whatever is marked in it."""
    plain = html.unescape(re.sub(r"<b>.*?</b>|<[^>]+>", "", block))
    return " ".join(plain.split()).endswith(" ".join(text.split()))


def test_the_stored_text_follows_the_slider_the_prompt_and_the_attempt(data, smoke_specs):
    app = visit("tradeoff", at="8")
    base, private, plain = (smoke_specs[name] for name in ("base", "dp", "plain"))
    for attempt, prompt in ((1, "Patient:"), (2, "Re:")):
        app.selectbox(key="prompt").set_value(prompt).run()
        app.number_input(key="attempt").set_value(attempt).run()
        assert not app.exception
        found = texts(app)
        assert len(found) == 3
        for block, spec in zip(found, (base, private, plain), strict=True):
            assert shows(block, stored(data, spec, prompt, attempt))
    app.select_slider(key="at").set_value("∞").run()
    assert len(texts(app)) == 2, "the public base and the unconstrained model"


def test_a_text_is_escaped_and_its_leaks_are_marked(compared, smoke_specs):
    folder = compared / "runs" / smoke_specs["dp"].run_id / "tables"
    generations, hits = (pd.read_parquet(folder / f"{name}.parquet") for name in ("generations", "hits"))
    first = generations["prompt_id"] == 1
    number = int(generations.loc[first, "generation_id"].iloc[0])
    generations.loc[generations["generation_id"] == number, "text"] = " <b>Ann Lee</b> <script>x</script>"
    hit = {"generation_id": number, "start": 4, "end": 11, "field": "full_name", "value": "Ann Lee", "kind": "leak"}
    hits = pd.concat([hits, pd.DataFrame([{**hit, "patient_id": "P0001", "split": "member", "rule": "value"}])])
    generations.to_parquet(folder / "generations.parquet")
    hits.astype(pd.read_parquet(folder / "hits.parquet").dtypes).to_parquet(folder / "hits.parquet")
    block = texts(visit("tradeoff", at="8"))[1]
    assert "<script>" not in block and "&lt;script&gt;" in block
    assert '<mark class="phi phi-leak">Ann Lee<b>leak: full name of patient P0001</b></mark>' in block


def test_a_run_without_texts_says_so(compared, smoke_specs):
    folder = compared / "runs" / smoke_specs["dp"].run_id / "tables"
    pd.read_parquet(folder / "generations.parquet").iloc[:0].to_parquet(folder / "generations.parquet")
    app = visit("tradeoff", at="8")
    assert NOT_KEPT in [one.value for one in app.caption]


def test_three_models_stand_beside_each_other_and_their_costs_add_up(compared, smoke_specs):
    app = visit("tradeoff", at="8")
    words = said(app)
    for model in ("Public model", "Private run, ε = 8", "Same training without noise", "Without privacy"):
        assert f"- **{model}**: " in words
    table = next(frame.value for frame in app.dataframe if "model" in frame.value)
    named = {"AUC of the loss attack, by note", "AUC of the loss attack, by patient"}
    assert named <= set(table["figure"]), "an AUC says of which attack it is"
    bits = table[(table["figure"] == "bits per character") & (table["arm"] == "run")].set_index("model")["value"]
    assert bits[beside.BASE] > 0 and set(bits.index) == set(beside.MODELS)
    trained, noise = bits[beside.NOISELESS] - bits[beside.PLAIN], bits[beside.PRIVATE] - bits[beside.NOISELESS]
    costs = "cost" if trained >= 0 else "save"
    assert f"{costs} **{abs(trained):.2f}**" in words and f"costs **{noise:.2f}**" in words
    perplexity = Workspace(compared, shared=()).run(smoke_specs["plain"].run_id).metrics
    own = perplexity[(perplexity["metric"] == "perplexity_heldout") & (perplexity["arm"] == "run")]["value"].iloc[0]
    assert f"without privacy {own:.1f}" in words, "the control without noise is no point of the curve"


def of_bits(plain: float, noiseless: float, private: float) -> pd.DataFrame:
    rows = ((beside.PLAIN, plain), (beside.NOISELESS, noiseless), (beside.PRIVATE, private))
    told = {"metric": "bits_per_character", "arm": "run", "seeds": 1}
    return pd.DataFrame([{"model": model, "value": value, **told} for model, value in rows])


def test_a_training_without_noise_may_be_better_than_the_unconstrained_one():
    worse = three_models.cost_sentence(of_bits(0.84, 0.96, 1.47), 8.0)
    assert "fewer steps cost **0.12**, and the noise of ε = 8 costs **0.51** more (the one seed" in worse
    better = three_models.cost_sentence(of_bits(1.05, 0.96, 1.47), 100.0)
    assert "fewer steps save **0.09**, and the noise of ε = 100 costs **0.51** (the one seed" in better


@pytest.mark.parametrize(
    ("gain", "told"),
    [
        (Interval(0.1807, 0.1767, 0.1847), "**18.1\u00a0%** (17.7\u00a0% to 18.5\u00a0%)"),
        (Interval(0.354, 0.31, 0.40), "**35\u00a0%** (31\u00a0% to 40\u00a0%)"),
        (Interval(0.354, math.nan, math.nan), "**35\u00a0%** (one seed)"),
    ],
)
def test_an_interval_of_the_gain_has_a_width(gain, told):
    assert hospital_size._gain(gain) == told


def test_a_control_has_its_interval_where_it_was_measured_with_one():
    rows = [("run", 0.61, 0.59, 0.62), ("heldout", 0.474, 0.444, 0.496)]
    names = [("run", 0.36, 0.33, 0.39), ("heldout", 0.0, math.nan, math.nan)]
    figures = pd.DataFrame(
        [("private", metric, *row) for metric, many in (("auc_loss", rows), (beside.NAMES, names)) for row in many],
        columns=["model", "metric", "arm", "value", "low", "high"],
    ).assign(model=beside.PRIVATE)
    table = three_models.table_html(figures, [("auc_loss", "AUC"), (beside.NAMES, "names")], 8.0)
    assert "<b>0.61</b><br>0.59 to 0.62<br>control 0.47 (0.44 to 0.50)</td>" in table
    assert "<br>control 0\u00a0%</td>" in table


def test_it_is_said_of_how_few_canaries_the_bits_are():
    rows = [("exposure:1", "run", 3), ("exposure:8", "run", 4), ("exposure:8", "heldout", 8), ("auc_loss", "run", 430)]
    metrics = pd.DataFrame(rows, columns=["metric", "arm", "n"])
    said = three_models.canaries_sentence(metrics)
    assert said.startswith(
        " The bits are means of 4 canaries planted 8 times, compared with 8 left out that would have had as many "
        "copies. Even for a model not trained on them,"
    )
    assert three_models.canaries_sentence(metrics[3:]) == three_models.canaries_sentence(metrics[:0]) == ""
    assert "1.4 bits" in three_models.explained(metrics) and three_models.explained(metrics).endswith(said)
    without = three_models.explained(metrics[3:])
    assert "canaries" not in without and "exposure" not in without and without.endswith("lower is more useful.")


def test_without_the_control_nothing_is_said_about_the_price_of_noise(data):
    app = visit("tradeoff", at="8")
    assert any("without noise was not run at this ε" in one.value for one in app.caption)
    assert "In bits per character, clipping" not in said(app)


def test_the_size_of_the_hospital_is_chosen_and_what_it_buys_is_said(compared, smoke_specs):
    app = visit("tradeoff", at="8")
    notes = smoke_specs["dp"].corpus.training_notes
    assert f"From about {notes} to about {2 * notes} notes at ε = 8: from " in said(app).replace("**", "")
    assert "bits per character, and from" in said(app)
    app.segmented_control(key="hospital-gpt2").set_value(rounded(2 * notes)).run()
    assert not app.exception
    assert "perplexity 60.0" in said(app)


def test_where_leaks_begin_is_said_for_every_attack(data, smoke_specs):
    app = visit("tradeoff", at="8")
    words = said(app)
    for attack in ("Full names", "Membership by note, loss attack", "Membership by patient, loss attack"):
        assert f"- **{attack}**: " in words
    captions = "\n".join(one.value for one in app.caption)
    assert "a leak of each attack begins at some ε with a probability of at most 2.5" in captions
    assert "A filled marker to the left of an open one is more often chance" in captions, "the bound is not about it"
    canaries = Workspace(data, shared=()).run(smoke_specs["dp"].run_id).metrics
    planted = canaries["metric"].str.startswith("exposure:") & (canaries["arm"] == "run")
    assert ("- **Canaries**: " in words) == planted.any()


def test_eight_pairs_are_answered_and_scored(data):
    app = visit("tradeoff", view="Real or written?")
    answered = 0
    while any(button.key == "reader-0" for button in app.button):
        app.button(key="reader-0").click().run()
        assert not app.exception
        answered += 1
        assert answered <= 8
    (answers,) = [one for one in app.session_state[STATE].values() if one]
    assert len(answers) == answered
    assert f"You found the model's text in {sum(answers)} of {answered} pairs" in [one.value for one in app.header]
    assert f"Guessing gets {answered / 2:g} of {answered} on average" in said(app) and "95\u00a0% interval" in said(app)


def test_real_notes_are_never_shown_in_the_test(data, monkeypatch, smoke_specs):
    spec = smoke_specs["dp"].corpus.model_copy(update={"imported": "0123456789abcdef"})
    found = sweeps_of(Workspace(data, shared=()).runs())
    imported = [replace(one, corpus=spec) for one in found]
    monkeypatch.setattr(sweeps, "sweeps_of", lambda runs: imported)
    app = visit("tradeoff", view="Real or written?")
    assert [one.value for one in app.info] == [REAL_NOTES] and not texts(app)


def test_costs_compare_runs_of_the_same_seeds():
    """Two further private seeds have no control without noise: their perplexities are not its."""

    def runs(*seeds: int) -> list:
        return [SimpleNamespace(spec=SimpleNamespace(training=SimpleNamespace(seed=seed))) for seed in seeds]

    common = Models(runs(0, 1, 2), runs(0), runs(2, 0), None).of_common_seeds()
    assert [[run.spec.training.seed for run in some] for some in common[:3]] == [[0], [0], [0]]
    assert not any(Models(runs(0), [], runs(0), None).of_common_seeds()[:3])


def test_the_size_stays_when_the_model_changes(monkeypatch):
    state: dict = {}
    monkeypatch.setattr(sweep_choice, "st", SimpleNamespace(session_state=state))
    small, large = {"3,000": 3_010}, {"12,000": 12_040}
    assert sweep_choice._carried("gpt2", small | large) is None, "nothing was chosen yet"
    state[sweep_choice.PICKED] = ("gpt2", 3_010)
    assert sweep_choice._carried("gpt2", small) is None, "the control keeps its own choice"
    assert sweep_choice._carried("distilbert", large) is None, "there is no such hospital"
    assert sweep_choice._carried("distilbert", small | large) == "3,000"


def _sizes() -> None:
    import streamlit as st

    from core.spec.model_names import MODEL_NAMES
    from pages.parts.tradeoff import sweep_choice

    sizes = {"3,000": 3_010, "12,000": 12_040}
    kind = {name: one for one, name in MODEL_NAMES.items()}[sweep_choice._model(list(MODEL_NAMES.values()), st._main)]
    size = sweep_choice._chosen_size(kind, sizes, 12_040, st._main, new=st.session_state.pop("new", False))
    st.session_state[sweep_choice.PICKED] = (kind, size)
    sweep_choice._note_clicked(kind)
    st.text(size)


@pytest.fixture
def sizes() -> AppTest:
    """The model and the size alone."""
    return AppTest.from_function(_sizes, default_timeout=WAIT)


def pick(app: AppTest, key: str, value: str) -> AppTest:
    app.segmented_control(key=key).set_value(value).run()
    assert not app.exception
    return app


def linked(app: AppTest) -> dict[str, str]:
    return {key: value if isinstance(value, str) else value[-1] for key, value in app.query_params.items()}


def test_a_size_that_another_model_keeps_stands_in_the_link(sizes):
    sizes.query_params["hospital"] = "3,000"
    assert sizes.run().text[0].value == "3010"
    pick(sizes, "model", "DistilBERT")
    assert sizes.text[0].value == "3010" and sizes.segmented_control(key="hospital-distilbert").value == "3,000"
    assert linked(sizes) == {"model": "DistilBERT", "hospital": "3,000"}
    pick(sizes, "hospital-distilbert", "12,000")
    pick(sizes, "model", "GPT-2")
    assert sizes.text[0].value == "12040" and linked(sizes) == {"model": "GPT-2", "hospital": "12,000"}
    assert sizes.segmented_control(key="hospital-gpt2").value == "12,000"


@pytest.mark.parametrize("asked", [{}, {"hospital": "3,000"}, {"model": "BERT", "hospital": "12,000"}])
def test_another_model_is_one_entry_in_the_history(sizes, monkeypatch, asked):
    for key, value in asked.items():
        sizes.query_params[key] = value
    sizes.run()
    sent: list[str] = []
    send = QueryParams._send_query_param_msg

    def counted(parameters: QueryParams) -> None:
        sent.append(str(parameters))
        send(parameters)

    monkeypatch.setattr(QueryParams, "_send_query_param_msg", counted)
    pick(sizes, "model", "DistilBERT")
    sizes.run()
    assert len(sent) == 1 and linked(sizes)["model"] == "DistilBERT"


def test_back_brings_the_model_before(sizes, monkeypatch):
    pick(pick(sizes.run(), "hospital-gpt2", "3,000"), "model", "DistilBERT")
    monkeypatch.setattr(linked_choice, "by_history", lambda: True)
    del sizes.query_params["model"]
    sizes.run()
    assert sizes.segmented_control(key="model").value == "GPT-2" and sizes.text[0].value == "3010"
    del sizes.query_params["hospital"]
    sizes.run()
    assert sizes.segmented_control(key="model").value == "GPT-2" and sizes.text[0].value == "12040"
    assert not sizes.exception and linked(sizes) == {}


def test_back_to_a_link_without_a_size_chooses_the_usual_one(sizes, monkeypatch):
    sizes.query_params["hospital"] = "3,000"
    pick(sizes.run(), "model", "DistilBERT")
    monkeypatch.setattr(linked_choice, "by_history", lambda: True)
    del sizes.query_params["hospital"]
    sizes.run()
    assert sizes.text[0].value == "12040" and sizes.segmented_control(key="hospital-distilbert").value == "12,000"


def test_a_link_to_another_model_and_size_is_followed(sizes):
    pick(sizes.run(), "hospital-gpt2", "12,000")
    sizes.query_params["model"], sizes.query_params["hospital"] = "DistilBERT", "3,000"
    sizes.run()
    assert sizes.text[0].value == "3010" and sizes.segmented_control(key="model").value == "DistilBERT"


@pytest.mark.parametrize(
    ("linked_model", "shown"), [(None, "DistilBERT"), ("BERT", "BERT"), ("no such model", "DistilBERT")]
)
def test_a_link_to_runs_alone_opens_their_model(linked_model, shown):
    """The id of a curve does not need its model beside it; a model that is named there counts."""

    def models() -> None:
        import streamlit as st

        from core.spec.model_names import MODEL_NAMES
        from pages.parts.tradeoff import sweep_choice

        st.text(sweep_choice._model(list(MODEL_NAMES.values()), st._main, "DistilBERT"))

    app = AppTest.from_function(models, default_timeout=WAIT)
    if linked_model is not None:
        app.query_params["model"] = linked_model
    assert app.run().text[0].value == shown and not app.exception


def test_a_link_to_runs_of_another_size_moves_the_control(sizes):
    pick(sizes.run(), "hospital-gpt2", "3,000")
    assert sizes.text[0].value == "3010"
    del sizes.query_params["hospital"]
    sizes.session_state["new"] = True
    sizes.run()
    assert sizes.text[0].value == "12040" and sizes.segmented_control(key="hospital-gpt2").value == "12,000"


def test_sizes_that_round_to_the_same_are_written_in_full():
    assert sweep_choice._labels([3_010, 12_010, 12_040, 0]) == {
        "3,000": 3_010,
        "12,010": 12_010,
        "12,040": 12_040,
        "other": 0,
    }
