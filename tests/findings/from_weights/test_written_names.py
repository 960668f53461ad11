"""Names in many texts: who has them, in how many texts, and how much likelier the model finds them than the public one.

The texts of the tests of the table are given, so that it is known which names are in them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from core.attacks.memorisation.extraction import generate
from core.attacks.probes.identities import plain_name
from core.attacks.prompts import PROMPTS
from core.attacks.registry import NotPossible, Target
from core.corpus.synthetic.hospital import build
from core.findings.experiments import plain
from core.findings.from_weights import written_names as module
from core.findings.from_weights.written_names import COLUMNS, NAME, names_table, written_names
from core.findings.stored_runs import StoredRuns, with_shipped
from core.models.build import LanguageModel
from core.pipeline.full_audit import target_of
from core.runs.store import DEMO, Workspace
from core.spec import CORPUS_PRESETS, ModelSpec, RunSpec
from tests.tiny_models import tiny

PROMPT = "Patient:"
INVENTED = "Zebedee Quuxworth"


def target(kind: str = "distilbert") -> Target:
    """A small hospital in which a held-out patient has the name of a member, and two held-out patients share one."""
    spec = RunSpec(corpus=CORPUS_PRESETS["smoke"], model=ModelSpec(kind=kind))
    corpus = build(spec.corpus)
    people = corpus.patients.copy()
    member, heldout = (people.index[people["split"] == split] for split in ("member", "heldout"))
    people.loc[heldout[0], "full_name"] = people.loc[member[0], "full_name"]
    people.loc[heldout[1], "full_name"] = people.loc[heldout[2], "full_name"]
    lms = {role: tiny(kind, seed=seed, spread=6) for role, seed in (("target", 0), ("base", 1))}
    models = {role: lambda report, lm=lm: lm for role, lm in lms.items()}
    return Target(spec, replace(corpus, patients=people), {}.__getitem__, models)


def named(asked: Target, split: str) -> pd.DataFrame:
    people = asked.corpus.patients
    return people[people["split"] == split].reset_index(drop=True)


def generations(texts: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"prompt": PROMPT, "text": texts})


def by_patient(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.dropna(subset="patient_id").set_index("patient_id")


def naive_score(lm: LanguageModel, whole: str, name: str) -> float:
    """Mean log p of the name's tokens: the text is read once for each, with this token hidden."""
    encoding = lm.tokenizer.backend_tokenizer.encode(whole, add_special_tokens=False)
    start = whole.index(name)
    found = []
    for place, (left, right) in enumerate(encoding.offsets):
        if right > start and left < start + len(name):
            ids = [lm.tokenizer.cls_token_id, *encoding.ids, lm.tokenizer.sep_token_id]
            ids[place + 1] = lm.tokenizer.mask_token_id
            asked = torch.tensor([ids])
            with torch.no_grad():
                state = lm.model(input_ids=asked, attention_mask=torch.ones_like(asked), output_hidden_states=True)[1]
            found.append(lm.head(state[-1][0, place + 1]).log_softmax(-1)[encoding.ids[place]].item())
    return float(np.mean(found))


def test_texts_are_counted_once_and_every_patient_has_a_row() -> None:
    asked = target()
    one, other = (named(asked, split)["full_name"].iloc[5] for split in ("member", "heldout"))
    texts = [
        f" {one}. Seen today.",
        f" {INVENTED}. Patient: {one}. Patient: {one}.",
        f" {one.split()[0]}, seen today.",
        f" {other}. Seen today.",
        f" {INVENTED}. Seen today.",
        " seen today for a cough.",
    ]
    rows = names_table(asked, generations(texts))
    assert {name: str(dtype) for name, dtype in rows.dtypes.items()} == COLUMNS
    counted = by_patient(rows)["texts"]
    assert counted[named(asked, "member")["patient_id"].iloc[5]] == 2
    assert counted[named(asked, "heldout")["patient_id"].iloc[5]] == 1
    assert counted.sum() == 3
    (invented,) = rows[rows["patient_id"].isna()].itertuples()
    assert invented.texts == 2 and pd.isna(invented.split) and np.isfinite(invented.score)
    assert (rows["score"].notna() == (rows["texts"] > 0)).all()


def test_a_shared_name_is_the_members_and_else_one_patients() -> None:
    asked = target()
    member, heldout = (named(asked, split) for split in ("member", "heldout"))
    texts = [f" {member['full_name'].iloc[0]}.", f" {heldout['full_name'].iloc[2]}."]
    rows = names_table(asked, generations(texts))
    found = by_patient(rows)
    names = asked.corpus.patients.set_index("patient_id")["full_name"].map(plain_name)
    assert not names[found.index].duplicated().any() and rows["patient_id"].notna().all()
    everyone = pd.concat([member, heldout])
    assert set(names[found.index]) == set(everyone["full_name"].map(plain_name))
    assert found["split"].to_dict() == everyone.set_index("patient_id")["split"][found.index].to_dict()
    assert found["texts"][member["patient_id"].iloc[0]] == 1
    assert heldout["patient_id"].iloc[0] not in found.index
    both = heldout["patient_id"].iloc[[1, 2]]
    (left,) = set(both) & set(found.index)
    assert found["texts"][left] == 1


def test_a_name_in_the_prompt_and_names_of_other_patients_are_no_patients() -> None:
    """The prompt is not the model's, and patients of the population are neither members nor held out."""
    asked = target()
    member = named(asked, "member")["full_name"].iloc[5]
    population = named(asked, "population")["full_name"].iloc[0]
    texts = pd.DataFrame({"prompt": [f"Patient: {member}", PROMPT], "text": [", seen today.", f" {population}."]})
    rows = names_table(asked, texts)
    assert by_patient(rows)["texts"].sum() == 0 and rows[rows["patient_id"].isna()]["texts"].tolist() == [1]


def test_names_are_scored_where_they_first_occur_against_the_public_model() -> None:
    asked = target()
    person = named(asked, "member").iloc[5]
    texts = [f" {INVENTED}. Seen today.", f" {person.full_name}. Fever.", f" {INVENTED}.", f" {person.full_name}."]
    rows = names_table(asked, generations(texts))

    def expected(text: str, name: str) -> float:
        return naive_score(asked.lm, PROMPT + text, name) - naive_score(asked.base, PROMPT + text, name)

    assert by_patient(rows)["score"][person.patient_id] == pytest.approx(expected(texts[1], person.full_name), abs=1e-4)
    (invented,) = rows[rows["patient_id"].isna()]["score"]
    assert invented == pytest.approx(expected(texts[0], INVENTED), abs=1e-4)
    assert invented != pytest.approx(expected(texts[2], INVENTED), abs=1e-3)


def test_texts_without_names_give_every_patient_nothing() -> None:
    asked = target()
    rows = names_table(asked, generations([" seen today.", " fever and a cough."]))
    assert rows["patient_id"].notna().all() and (rows["texts"] == 0).all() and rows["score"].isna().all()
    assert set(rows["split"]) == {"member", "heldout"}


def test_texts_are_those_of_the_prompts_that_ask_for_a_name(monkeypatch) -> None:
    """As many after each, of the run's seed; a shorter table is made of the first texts of a longer one."""
    asked, seen, steps = target(), [], []
    monkeypatch.setattr(module, "TEXTS", 24)
    monkeypatch.setattr(module, "names_table", lambda target, texts: seen.append(texts))
    written_names(asked, lambda done, total: steps.append((done, total)))
    (texts,) = seen
    ids = (1, 2, 3, 4, 5, 6, 13, 14)
    assert texts["prompt_id"].tolist() == [number for number in ids for _ in range(3)] and steps[-1] == (24, 24)
    assert texts["prompt"].tolist() == [one.text for one in PROMPTS if one.prompt_id in ids for _ in range(3)]
    shorter = asked.spec.audit.model_copy(update={"samples_per_prompt": 3, "new_tokens": 12})
    alone = generate(asked.lm, shorter, prompts=[one for one in PROMPTS if one.prompt_id == 13])
    both = texts[texts["prompt_id"] == 13]
    assert both["seed"].tolist() == alone["seed"].tolist() and both["text"].tolist() == alone["text"].tolist()
    assert module.NEW_TOKENS == 12


def test_a_causal_model_is_refused_before_it_writes(monkeypatch) -> None:
    monkeypatch.setattr(module, "generate", lambda *args, **kwargs: pytest.fail("it wrote"))
    with pytest.raises(NotPossible):
        written_names(target("gpt2"))


@pytest.mark.slow
def test_the_shipped_table_has_the_names_of_the_first_texts_of_the_shipped_weights(tmp_path) -> None:
    """The first texts are those of the first prompt, so their names first occur there and have the same scores."""
    runs = StoredRuns(with_shipped(Workspace(tmp_path, shared=(DEMO,))))
    run = runs.run(plain("distilbert"))
    shipped = runs.measured(run.spec, NAME)
    asked = target_of(run, runs.workspace)
    few = run.spec.audit.model_copy(update={"samples_per_prompt": 256, "new_tokens": module.NEW_TOKENS})
    again = names_table(asked, generate(asked.lm, few, prompts=PROMPTS[:1]))

    counts = by_patient(shipped)["texts"]
    assert set(counts.index) == set(by_patient(again).index)
    assert (counts[by_patient(again).index] >= by_patient(again)["texts"]).all()
    written = again[again["texts"] > 0]
    assert len(written)
    for row in written.itertuples():
        same = shipped["patient_id"].isna() if pd.isna(row.patient_id) else shipped["patient_id"] == row.patient_id
        candidates = shipped[same & (shipped["texts"] >= row.texts)]
        assert (candidates["score"] - row.score).abs().min() < 1e-3
