"""Canaries: balance, the fair coin, how often they are planted, and the space R of each."""

from __future__ import annotations

from itertools import product

import pandas as pd
import pytest

from core.corpus.canary_forms import FORMS, RANDOM_WORDS
from core.corpus.synthetic.canaries import (
    SPACE,
    canary_notes,
    canary_patients,
    draw,
    random_references,
    reference_texts,
)
from core.corpus.synthetic.hospital import build
from core.corpus.synthetic.records import Registry, sex_of
from core.spec import CORPUS_PRESETS, CorpusSpec

CLASSROOM = CORPUS_PRESETS["classroom"]


@pytest.mark.parametrize(
    ("most", "counts"), [(None, (1, 2, 4, 8)), (16, (1, 2, 4, 8, 16)), (64, (1, 2, 4, 8, 16, 32, 64))]
)
def test_canaries_are_inserted_up_to_the_most_copies(most, counts):
    spec = CorpusSpec(canaries=len(FORMS) * len(counts) * 2, canary_patients=0, canary_copies=most)
    assert spec.insertions == counts
    canaries = draw(spec)
    sizes = canaries.groupby(["form", "insertions"]).size()
    assert set(sizes.index) == set(product(FORMS, counts)) and (sizes == 2).all()
    notes = canary_notes(spec, canaries)
    read = canaries.loc[canaries["inserted"]].set_index("canary_id")["insertions"]
    assert pd.Series([note.patient_id for note in notes]).value_counts().to_dict() == read.to_dict()
    assert len({note.note_id for note in notes}) == len(notes)


def test_a_hospital_with_the_usual_copies_keeps_its_name():
    assert "canary_copies" not in CLASSROOM.model_dump(mode="json")
    assert CLASSROOM.model_copy(update={"canary_copies": 64}).digest() != CLASSROOM.digest()


def test_forms_and_insertions_are_balanced():
    canaries = draw(CLASSROOM)
    counts = canaries[canaries["form"] != "patient"].groupby(["form", "insertions"]).size()
    assert set(counts.index) == set(product(FORMS, CLASSROOM.insertions))
    assert (counts == 4).all()
    assert (canaries["form"] == "patient").sum() == CLASSROOM.canary_patients


def test_texts_have_their_form_and_secret():
    for row in draw(CLASSROOM).itertuples():
        assert row.text[row.secret_start :].startswith(row.secret)
        if row.form != "patient":
            shape = "".join("S" if word.isdigit() else "H" for word in row.text.split())
            assert shape.replace("SSS", "S") == row.form
            assert len(row.secret.split()) == 3


def test_the_coin_is_fair_and_secrets_are_uniform():
    canaries = draw(CorpusSpec(canaries=2_400, canary_patients=0))
    assert abs(canaries["inserted"].mean() - 0.5) < 4 * 0.5 / 2_400**0.5
    for _, of_cell in canaries.groupby(["form", "insertions"]):
        assert abs(of_cell["inserted"].mean() - 0.5) < 4 * 0.5 / len(of_cell) ** 0.5
    secrets = canaries["secret"].str.replace(" ", "").astype(int)
    assert abs(secrets.mean() - 499.5) < 4 * 288.7 / 2_400**0.5
    coins = [draw(CorpusSpec(canaries=0, canary_patients=8, seed=seed))["inserted"].sum() for seed in range(40)]
    assert abs(sum(coins) / 320 - 0.5) < 4 * 0.5 / 320**0.5


def test_inserted_canaries_are_planted_as_often_as_they_say_and_others_never():
    corpus = build(CLASSROOM)
    planted = corpus.notes_of("canary").groupby("patient_id")
    copies = planted.size()
    for row in corpus.canaries.itertuples():
        if not row.inserted:
            assert row.canary_id not in copies.index
            assert not corpus.notes["text"].str.contains(row.text, regex=False).any()
        elif row.form == "patient":
            assert 3 <= copies[row.canary_id] <= 5
            assert planted["text"].first()[row.canary_id] == row.text
        else:
            assert copies[row.canary_id] == row.insertions
            assert (planted.get_group(row.canary_id)["text"] == row.text).all()
    assert corpus.notes["note_id"].is_unique
    assert corpus.canaries["inserted"].nunique() == 2


def test_canary_patients_are_patients_of_their_own_split():
    corpus = build(CLASSROOM)
    people = corpus.patients[corpus.patients["split"] == "canary"]
    assert len(people) == CLASSROOM.canary_patients
    assert corpus.patients["full_name"].is_unique
    rows = corpus.canaries[corpus.canaries["form"] == "patient"]
    assert list(rows["canary_id"]) == list(people["patient_id"])
    assert list(rows["secret"]) == list(people["full_name"])


def test_the_space_of_a_secret_is_all_thousand_codes_in_order():
    for _, row in draw(CLASSROOM).head(6).iterrows():
        texts = reference_texts(row)
        assert len(set(texts)) == len(texts) == SPACE
        rank = int(row["secret"].replace(" ", ""))
        assert texts[rank] == row["text"]
        start, end = row["secret_start"], row["secret_start"] + len(row["secret"])
        assert texts[7] == row["text"][:start] + "0 0 7" + row["text"][end:]


def test_spaces_of_different_canaries_do_not_overlap():
    canaries = draw(CorpusSpec(canaries=840, canary_patients=0))
    assert canaries["text"].str.split().str[0].is_unique
    many = draw(CorpusSpec(canaries=2_500, canary_patients=0))
    for _, of_form in many.groupby("form"):
        assert of_form["text"].str.split().str[0].is_unique
    with pytest.raises(ValueError, match="5,000 canaries are too many to keep apart: choose at most 2,529"):
        draw(CorpusSpec(canaries=5_000))


def test_the_space_of_a_canary_patient_is_a_thousand_names_of_nobody():
    canaries = draw(CLASSROOM)
    row = canaries[canaries["form"] == "patient"].iloc[0]
    texts = reference_texts(row)
    assert len(set(texts)) == len(texts) == SPACE
    assert texts.count(row["text"]) == 1
    start = row["secret_start"]
    rest = row["text"].replace(row["secret"], "").split("\n")[-1]
    names = []
    for text in texts:
        assert text.split("\n")[-1].endswith(rest[-20:])
        names.append(" ".join(text[start:].split()[:2]).strip(".,()"))
    assert {sex_of(name.split()[0]) for name in names} == {sex_of(row["secret"].split()[0])}
    assert texts == reference_texts(row)

    registry = Registry(CLASSROOM.seed)
    patients = {registry.patient(n, "P", "member").fields["full_name"] for n in range(3_000)}
    others = {person.fields["full_name"] for person in canary_patients(CLASSROOM)} - {row["secret"]}
    assert not set(names) & (patients | others)


def test_a_name_in_the_address_of_the_mail_is_replaced_too():
    spec = CorpusSpec(canaries=0, canary_patients=60, naming_rate=1.0)
    canaries = draw(spec)
    row = next(r for _, r in canaries.iterrows() if "@" in r["text"])
    dotted = row["secret"].lower().replace(" ", ".")
    assert dotted in row["text"]
    others = [text for text in reference_texts(row) if text != row["text"]]
    assert not any(row["secret"] in text or dotted in text for text in others)


def test_one_whole_classroom_draw_is_the_same_again():
    assert draw(CLASSROOM).equals(draw(CLASSROOM))


def test_canaries_of_random_words_leave_the_others_as_they_are_and_are_planted_once():
    spec = CLASSROOM.model_copy(update={"random_canaries": 200})
    drawn, usual = draw(spec), draw(CLASSROOM)
    lines = drawn.iloc[len(usual) :]
    assert drawn.iloc[: len(usual)].equals(usual)
    assert (lines["form"] == "random").all() and (lines["insertions"] == 1).all()
    assert drawn["canary_id"].is_unique and lines["text"].is_unique
    assert (lines["text"].str.split().str.len() == RANDOM_WORDS).all()
    assert abs(lines["inserted"].mean() - 0.5) < 4 * 0.5 / 200**0.5
    notes = [note for note in canary_notes(spec, drawn) if note.patient_id in set(lines["canary_id"])]
    planted = lines[lines["inserted"]]
    assert sorted((note.patient_id, note.text) for note in notes) == sorted(
        zip(planted["canary_id"], planted["text"], strict=True)
    )


def test_canaries_of_random_words_stand_beside_lines_drawn_alike():
    row = draw(CLASSROOM.model_copy(update={"random_canaries": 1})).iloc[-1]
    texts = reference_texts(row)
    assert len(set(texts)) == SPACE and texts.count(row["text"]) == 1
    words = [word for text in random_references() for word in text.split()]
    own = [word for text in draw(CorpusSpec(random_canaries=900))["text"].tail(900) for word in text.split()]
    assert set(own) == set(words), "both draw from the same words"
    assert {len(text.split()) for text in random_references()} == {RANDOM_WORDS}
