"""Notes for release, written by a model that knows its three patients by heart and by a private one."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from core.__main__ import main
from core.common.errors import Cancelled
from core.corpus.tables import Corpus
from core.evaluation import released_notes as figures
from core.pipeline import released_notes as module
from core.pipeline.released_card import card_files, card_text, describe, publish
from core.pipeline.released_notes import can_write_notes, released_notes
from core.runs.facts import FLOATING_POINT, FOLLOWS_FROM_A_SEED, LIMITS, RESTS_ON_A_KEY
from core.runs.store import Workspace
from core.spec import CorpusSpec

COUNT = module.FEWEST + 10


@pytest.fixture(scope="module")
def workspace(leaky_workspace):
    return Workspace(leaky_workspace, shared=())


@pytest.fixture(scope="module")
def runs(workspace):
    """(without privacy, ε = 8)"""
    found = [run for run in workspace.runs() if not run.spec.is_base]
    return sorted(found, key=lambda run: run.spec.privacy.private)


@pytest.fixture(scope="module")
def made(workspace, runs):
    return released_notes(runs[0], workspace, COUNT)


def row(made, figure, arm):
    table = made.figures
    return table[(table["metric"] == figure) & (table["arm"] == arm)].iloc[0]


def test_a_model_that_knows_its_patients_writes_them_down(made):
    assert row(made, "patients_named", "members")["value"] == 1.0
    assert row(made, "patients_named", "held out")["value"] == 0.0
    assert row(made, "nearer_to_members", "texts")["value"] > 0.5
    both = [row(made, "perplexity", arm)["value"] for arm in ("public", "released notes")]
    assert both[0] != both[1], "the model of the notes was trained"


def test_the_notes_are_compared_with_real_ones_as_a_model_is(made):
    """The same tasks as the quick audit's utility, with real notes as control."""
    arms = made.figures.groupby("metric")["arm"].agg(list).to_dict()
    assert arms["facts_fit"] == ["released notes", "held out"] and arms["facts_fit_shuffled"] == ["released notes"]
    shares = made.figures[made.figures["metric"].isin(["facts_fit", "text_similarity"])]
    known = shares[shares["n"] > 0]
    assert len(known) and known["value"].between(0, 1).all() and not (known["low"] > known["value"]).any()
    assert arms.get("text_similarity", ["released notes", "held out"]) == ["released notes", "held out"]


def test_taggers_learn_from_the_notes_and_from_as_many_public_texts(made):
    """One judge for all; the card says what labelled the texts. This cohort has no population patients."""
    rows = made.figures[made.figures["metric"] == "entity_f1"].set_index("arm")
    assert rows.index.tolist() == ["released notes", "public", "list of terms"]
    fitted = rows["note"].str.extract(r"fitted on (\d+) texts", expand=False).iloc[:2]
    assert fitted.nunique() == 1 and 0 < int(fitted.iloc[0]) <= len(made.texts)
    assert rows["n"].nunique() == 1 and rows.at["list of terms", "value"] == rows["value"].max() > 0.9
    told = describe(made)
    assert "list of the hospital's terms" in told["tasks"] and told["tasks"] in card_text(told)
    without = describe(replace(made, figures=made.figures[made.figures["metric"] == "perplexity"]))
    assert without["tasks"] == "" and "Entity figures" not in card_text(without)


def test_a_cap_leaves_out_notes_on_both_sides():
    """Null: texts and notes of everybody are alike. Two notes of a member against eight of a stranger are no chance."""
    rng, words, values = np.random.default_rng(7), [f"w{number}" for number in range(6)], {2: [], None: []}
    for seed in range(10):
        rows = [
            (
                f"{patient}-{note}",
                f"P{patient}",
                "member" if patient % 2 else "heldout",
                " ".join(rng.choice(words, 25)),
            )
            for patient in range(30)
            for note in range(8)
        ]
        notes = pd.DataFrame(rows, columns=["note_id", "patient_id", "split", "text"])
        corpus = Corpus(CorpusSpec(), notes[["patient_id", "split"]].drop_duplicates(), notes, pd.DataFrame())
        capped, whole = (module._judged(corpus, cap, 0) for cap in (2, None))
        assert set(capped.groupby("patient_id").size()) == {2} and set(whole.groupby("patient_id").size()) == {8}
        assert set(capped["text"]) == set(notes.loc[notes.groupby("patient_id").cumcount() < 2, "text"])
        texts = [" ".join(rng.choice(words, 25)) for _ in range(40)]
        unlike = pd.concat([capped[capped["member"]], whole[~whole["member"]]])
        for key, judged in ((2, capped), (None, unlike)):
            sides = (judged[judged["member"]], judged[~judged["member"]])
            values[key].append(figures.nearest(texts, *sides, seed=seed)[0].value)
    assert np.mean(values[2]) == pytest.approx(0.5, abs=0.08)
    assert np.mean(values[None]) < 0.4, "so that a cap on one side alone would show"


def test_the_same_notes_again_and_fewer_are_the_first_of_more(made, workspace, runs):
    lm = runs[0].model()
    first = module._write(lm, 5, runs[0].spec.training.max_tokens, 0, lambda *told: None, lambda: False)
    assert tuple(text for text in first if text.strip()) == made.texts[: len([one for one in first if one.strip()])]


def test_the_card_states_the_promise_and_every_figure(made, tmp_path):
    out = tmp_path / "notes.csv"
    assert publish(made, out)[-1] == out
    card, facts = card_files(out)
    frame = pd.read_csv(out)
    assert len(frame) == len(made.texts) and frame["note_id"].is_unique
    told = json.loads(facts.read_text())
    assert "without differential privacy" in told["promise"] and "No promise follows" in told["follows"]
    assert len(told["figures"]) == len(made.figures)
    assert all(name in card.read_text() for name in made.figures["metric"])
    assert set(LIMITS) <= set(told["limits"]) and "below" not in card.read_text()
    with pytest.raises(FileExistsError):
        publish(made, out)


FIGURE = {"metric": "nearer_to_members", "arm": "texts", "n": 9, "note": "texts"}


def test_a_private_model_passes_its_promise_on_if_it_keeps_one(workspace, runs, monkeypatch):
    notes = released_notes(runs[1], workspace, COUNT)
    told = describe(notes)
    assert "-differential privacy for one note" in told["promise"] and "keeps no promise" in told["follows"]
    assert FOLLOWS_FROM_A_SEED in told["limits"] and FLOATING_POINT in told["limits"]
    secret = runs[1].privacy.model_copy(update={"noise_source": "secret"})
    monkeypatch.setattr(type(runs[1]), "privacy", property(lambda run: secret))
    told = describe(notes)
    assert "the same promise holds" in told["follows"] and RESTS_ON_A_KEY in told["limits"]
    missing = {**told, "figures": [dict.fromkeys(("value", "low", "high"), math.nan) | FIGURE]}
    assert "| none | none |" in card_text(missing) and "nan" not in card_text(missing)


def test_stopping_leaves_nothing(workspace, runs):
    with pytest.raises(Cancelled):
        released_notes(runs[0], workspace, COUNT, should_stop=lambda: True)


def test_what_cannot_write_notes_is_refused(workspace, runs, monkeypatch):
    base = next(run for run in workspace.runs() if run.spec.is_base)
    assert [can_write_notes(run) for run in (*runs, base)] == [True, True, False]
    with monkeypatch.context() as without:
        without.setattr(type(base), "has_model", property(lambda run: False))
        assert not can_write_notes(runs[0])
    for run, count, said in ((base, COUNT, "public model"), (runs[0], 3, "must be from")):
        with pytest.raises(ValueError, match=said):
            released_notes(run, workspace, count)


def test_the_command(leaky_workspace, runs, tmp_path, capsys):
    out = tmp_path / "new" / "notes.csv"
    command = ["notes", runs[0].id, "--data", str(leaky_workspace), "--count", str(COUNT), "--out"]
    assert main([*command, str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == len(pd.read_csv(out))
    assert main([*command, str(out)]) == 2 and "exists" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "notes.txt")]) == 2
