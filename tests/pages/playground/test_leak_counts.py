"""The live tally counts what a stored audit counts, and its control is scaled in the same way."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from core.attacks.memorisation.extraction import index_of, value_hits
from core.corpus.synthetic.hospital import build
from core.evaluation.summary import attempts_with_leak, pools
from core.phi.fields import DIRECT, FIELDS
from core.phi.leaks import find_many
from core.serving.server import Sampling
from core.spec import CORPUS_PRESETS, CorpusSpec, RunSpec
from pages.parts.playground import leak_counts
from pages.parts.playground.leak_counts import counted, rates
from pages.parts.playground.prompt_session import each_once
from pages.parts.playground.side_by_side import Answer, Try
from pages.parts.session import classroom, owner, resources
from pages.parts.session.room_values import Tries
from pages.parts.session.rooms import Classroom


@pytest.fixture(scope="module")
def corpus():
    return build(CORPUS_PRESETS["smoke"])


def texts_of(corpus) -> list[str]:
    """Members' names twice, a held-out patient's once, both once, somebody planted, and nobody."""
    names = {split: rows["full_name"].tolist() for split, rows in corpus.patients.groupby("split")}
    member, heldout, planted = names["member"], names["heldout"], names["canary"]
    return [
        f"Seen today: {member[0]}.",
        f"{member[1]} came with a cough.",
        f"{heldout[0]} went home.",
        f"{heldout[1]} and {member[2]} shared a room.",
        f"{planted[0]} was never a patient.",
        "Nobody is named here.",
    ]


def answers_of(corpus, texts) -> list[Answer]:
    spans = [tuple(found) for found in find_many(texts, index_of(corpus))]
    first = Answer("r", (0, 1), tuple(texts[:2]), tuple(spans[:2]))
    return [first, Answer("r", tuple(range(2, len(texts))), tuple(texts[2:]), tuple(spans[2:]))]


def test_the_session_counts_as_a_stored_audit_does(corpus):
    texts = texts_of(corpus)
    splits = corpus.patients.set_index("patient_id")["split"]
    found = rates(counted(answers_of(corpus, texts), splits), splits)
    generations = pd.DataFrame({"generation_id": range(len(texts)), "prompt": "", "text": texts})
    hits = value_hits(generations, index_of(corpus))
    pool = {"run": int((splits == "member").sum()), "heldout": int((splits == "heldout").sum())}
    stored = list(attempts_with_leak(hits[hits["field"].isin(DIRECT)], len(texts), pool))
    assert list(found.values()) == stored


def test_its_figures_are_those_counted_by_hand(corpus):
    splits = corpus.patients.set_index("patient_id")["split"]
    found = rates(counted(answers_of(corpus, texts_of(corpus)), splits), splits)
    assert found["run"].value == pytest.approx(3 / 6), "a planted canary patient is no member of the hospital"
    assert found["raw"].value == pytest.approx(2 / 6)
    members, heldout = (splits == "member").sum(), (splits == "heldout").sum()
    assert members > heldout
    assert found["heldout"].value == pytest.approx(1 - (1 - 2 / 6) ** (members / heldout))


def test_the_session_counts_the_imported_patients_that_the_runs_figures_count(corpus, monkeypatch):
    """Three members and two held-out patients have a known name. Without any, there is a sentence and no 0 %."""
    splits = corpus.patients.groupby("split")["patient_id"]
    known = [*splits.get_group("member")[:3], *splits.get_group("heldout")[:2]]
    patients = corpus.patients.assign(**{field.name: None for field in FIELDS})
    patients["full_name"] = corpus.patients["full_name"].where(patients["patient_id"].isin(known))
    imported = replace(corpus, patients=patients, spec=CorpusSpec(imported="0" * 16))
    workspace = SimpleNamespace(corpus=lambda spec: imported)
    monkeypatch.setattr(owner, "workspace", lambda: workspace)
    run = SimpleNamespace(id="r", spec=RunSpec(corpus=imported.spec))
    found = rates(Tries(6, 3, 2), leak_counts._splits(run.spec))
    pool = pools(imported, DIRECT)
    assert resources.leaks_can_be_found(imported.spec, workspace)
    assert pool == {"run": 3, "heldout": 2} and found["heldout"].value == pytest.approx(1 - (1 - 2 / 6) ** (3 / 2))

    resources.empty_caches()
    workspace.corpus = lambda spec: replace(imported, patients=patients.assign(full_name=None))
    said: list[str] = []
    monkeypatch.setattr(leak_counts.st, "caption", said.append)
    leak_counts.counts([Answer("r", (0,), ("Nobody.",), ((),))], run)
    assert said == [leak_counts.NOBODY]
    assert not resources.leaks_can_be_found(imported.spec, workspace)
    resources.empty_caches()


def test_without_known_held_out_patients_the_control_is_missing_and_not_nought(corpus, monkeypatch):
    splits = corpus.patients.set_index("patient_id")["split"]
    monkeypatch.setattr(leak_counts, "_splits", lambda spec: splits.replace("heldout", None))
    leaks, share, control = leak_counts.cells(Tries(4, 2, 0), SimpleNamespace(spec=None))
    assert leaks == "<b>2</b> of 4" and "50" in share and control.startswith("none")


def test_a_control_has_an_interval_as_the_share_beside_it(corpus, monkeypatch):
    """One hit of eight by chance says little: without its interval the control would look like a firm 27 %."""
    splits = corpus.patients.set_index("patient_id")["split"]
    monkeypatch.setattr(leak_counts, "_splits", lambda spec: splits)
    _, share, control = leak_counts.cells(Tries(8, 0, 1), SimpleNamespace(spec=None))
    row = rates(Tries(8, 0, 1), splits)["heldout"]
    ends = leak_counts._interval(row.low, row.high)
    assert "(0 to" in share and ends in control and control.endswith("1 of 8 before scaling")
    assert row.low < row.value < row.high and row.high - row.low > 0.5


def test_a_model_of_notes_that_somebody_brought_never_gets_into_a_room(monkeypatch, corpus):
    """Their run's id names their notes; the presenter must not see it, nor count what it wrote."""
    told = []
    monkeypatch.setattr(classroom, "room", lambda: "ABCDE")
    monkeypatch.setattr(classroom, "tried", lambda run_id, tries: told.append(run_id))
    monkeypatch.setattr(resources, "patients", lambda spec, workspace: corpus.patients.set_index("patient_id"))
    synthetic = RunSpec(corpus=CORPUS_PRESETS["smoke"])
    own = RunSpec(corpus=CORPUS_PRESETS["smoke"].model_copy(update={"imported": "0" * 12}))
    runs = [SimpleNamespace(id=spec.run_id, spec=spec) for spec in (synthetic, own)]
    monkeypatch.setattr(classroom, "unseen", lambda samples: [told.append(key[0]) is None for key in samples])
    leak_counts.add_to_class(Try("Re:", tuple(Answer(run.id, (0,), ("Nobody.",), ((),)) for run in runs)), runs)
    assert told == [synthetic.run_id] * 2


def test_the_class_counts_a_sample_once_whoever_asks_for_it(monkeypatch, corpus, tmp_path):
    rooms = Classroom(tmp_path)
    code, _ = rooms.open()
    monkeypatch.setattr(classroom, "room", lambda: code)
    monkeypatch.setattr(classroom, "classroom", lambda: rooms)
    monkeypatch.setattr(resources, "patients", lambda spec, workspace: corpus.patients.set_index("patient_id"))
    spec = RunSpec(corpus=CORPUS_PRESETS["smoke"])
    run = SimpleNamespace(id=spec.run_id, spec=spec)
    text = texts_of(corpus)[0]
    (spans,) = find_many([text], index_of(corpus))
    same = Try("Re:", (Answer(run.id, (7,), (text,), (tuple(spans),)),))
    stopped = Try("Re:", (Answer(run.id, (7,), (text[:2],), ((),), stopped=True),))
    leak_counts.add_to_class(stopped, [run])
    assert rooms.counts(code).tries == {}, "its whole text, which leaks, is counted when somebody has it"
    for attempt in (same, same, replace(same, prompt="Name:"), replace(same, sampling=Sampling(temperature=1.0))):
        leak_counts.add_to_class(attempt, [run])
    assert rooms.counts(code).tries == {run.id: Tries(3, 3, 0)}
    rooms.reset(code)
    leak_counts.add_to_class(same, [run])
    assert rooms.counts(code).tries == {run.id: Tries(1, 1, 0)}, "a reset forgets what was counted"


def test_a_session_counts_a_sample_once_and_of_a_stopped_one_the_longer_text():
    part = Answer("r", (7,), ("Jo",), ((),), stopped=True)
    whole = Answer("r", (7, 8), ("John Doe", "Mary"), ((), ()))
    tries = [Try("Re:", (part,)), *[Try("Re:", (whole, Answer("other", (7,), ("x",), ((),))))] * 20]
    assert [sample.texts[0] for sample in each_once(tries, "r")] == ["John Doe", "Mary"]
    assert len(each_once([*tries, Try("Name:", (part,))], "r")) == 3, "another prompt is another trial"


def test_a_session_without_hits_has_a_control_of_nought(corpus):
    splits = corpus.patients.set_index("patient_id")["split"]
    found = rates(counted([Answer("r", (0,), ("Nothing.",), ((),))], splits), splits)
    assert (found["run"].value, found["heldout"].value) == (0.0, 0.0)
    assert found["run"].n == 1 and found["run"].high > 0.5
