"""Be the auditor: fair decks, guesses that count once, and a class that follows its presenter."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import cast

import numpy as np
import pandas as pd
import pytest

from core.evaluation.guarantee.live_bound import live_epsilon
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import PrivacySpec
from pages.parts.auditor import deck, guesses, proof
from pages.parts.session import classroom
from pages.parts.session.room_values import Audited, Vote
from pages.parts.session.rooms import Classroom
from tests.pages.visit import said, visit


def scores(members: int, others: int, notes: int = 3) -> pd.DataFrame:
    rows = [
        (f"n{patient}-{note}", f"p{patient}", patient < members, float(patient + note))
        for patient in range(members + others)
        for note in range(notes)
    ]
    return pd.DataFrame(rows, columns=["note_id", "patient_id", "member", "score"])


def test_every_card_of_a_deck_is_the_toss_of_a_fair_coin():
    """Whatever came before: also after three members, and on the last card, whose place everyone knows."""
    notes = scores(90, 40)
    drawn = [deck.drawn(notes, np.random.default_rng(seed)) for seed in range(600)]
    assert all(one["patient_id"].is_unique for one in drawn[:200])
    members = [one["member"].to_numpy() for one in drawn]
    assert np.mean([len(one) == 57 for one in members]) > 0.98, "2·40 − 2.5·√80, whatever the coins"
    for near in (slice(0, 4), slice(20, 24), slice(-4, None)):
        assert np.mean([one[near] for one in members if len(one) == 57]) == pytest.approx(0.5, abs=0.04)
    assert np.mean([one[-1] for one in members]) == pytest.approx(0.5, abs=0.06)
    after_three = [one[at] for one in members for at in range(3, len(one)) if one[at - 3 : at].all()]
    assert np.mean(after_three) == pytest.approx(0.5, abs=0.03)


def test_patients_with_many_notes_are_dealt_neither_early_nor_late():
    """Members with 1 to 12 notes: the first tenth of a deck has as many notes a patient as all patients have."""
    rows = [(f"n{p}-{n}", f"p{p}", p % 2 == 0, 0.0) for p in range(240) for n in range(1 + p % 12)]
    notes = pd.DataFrame(rows, columns=["note_id", "patient_id", "member", "score"])
    counts = notes.groupby("patient_id").size()
    decks = [deck.drawn(notes, np.random.default_rng(seed))["patient_id"].map(counts).to_numpy() for seed in range(300)]
    early, late = (np.mean([one[part] for one in decks]) for part in (slice(20), slice(-20, None)))
    assert early == pytest.approx(6.5, abs=0.2) and late == pytest.approx(6.5, abs=0.2)


def test_a_class_that_guesses_blindly_about_real_decks_rarely_proves_anything():
    rng, notes = np.random.default_rng(1), scores(90, 40)
    false = 0
    for seed in range(400):
        truth = deck.drawn(notes, np.random.default_rng(seed))["member"].to_numpy()
        false += live_epsilon(truth == rng.integers(0, 2, len(truth)))[-1] > 0
    assert false / 400 <= 0.05


def test_notes_are_dealt_once_in_a_room_also_after_a_restart(tmp_path):
    rooms = Classroom(tmp_path)
    code, _ = rooms.open()
    salt, first = rooms.deal(code, "a hospital", 6)
    same, second = rooms.deal(code, "a hospital", 6)
    assert same == salt and set(first).isdisjoint(second)
    assert rooms.deal(code, "another", 6)[1] == range(6)
    audited, vote = Audited("gpt2-1", helped=True), Vote(True, False, helped=True)
    rooms.choose(code, audited)
    rooms.vote(code, "gpt2-1", vote, 0)
    assert rooms.counts(code).votes == {"gpt2-1": (vote,)} and rooms.counts(code).audited == audited
    rooms.reset(code)
    assert rooms.counts(code).votes == {} and rooms.deal(code, "a hospital", 6) == (salt, range(12, 18))
    rooms.vote(code, "gpt2-1", vote, 0)
    assert rooms.counts(code).votes == {}, "a guess of the round before"
    for number in range(100):
        rooms.deal(code, f"h{number}", 6)
    assert len(rooms.deal(code, "h99", 6)[1]) == 0, "no hospital beyond the 64th"


def test_runs_of_one_hospital_share_a_deck_and_a_second_click_is_none(data, smoke_specs, monkeypatch):
    workspace = Workspace(data, shared=())
    plain, private = (workspace.run(smoke_specs[name].run_id) for name in ("plain", "dp"))
    monkeypatch.setattr(deck.owner, "workspace", lambda: workspace)
    assert [one.text for one in deck.cards(plain, b"s")] == [one.text for one in deck.cards(private, b"s")]
    monkeypatch.setattr(guesses.st, "session_state", {})
    guesses.deal(plain)
    assert guesses._own().dealt == {deck.hospital(plain): 9}
    card = guesses.next_card(plain)
    for _ in range(3):
        guesses.guess(plain, card, True, helped=False)
    assert len(guesses.votes(plain)) == 1 and guesses.next_card(plain) != card
    assert guesses.next_card(private).text == guesses.next_card(plain).text, "with another model the hand goes on"


def test_cards_hold_the_models_own_scores(data, smoke_specs):
    run = Workspace(data, shared=()).run(smoke_specs["plain"].run_id)
    found = deck.cards(run, b"salt")
    assert len(found) >= 4 and found == deck.cards(run, b"salt") != deck.cards(run, b"other")
    notes = Workspace(data, shared=()).corpus(run.spec.corpus).notes.set_index("text")["split"]
    table = run.table("scores")
    table = table[table["attack"] == "loss"].set_index("note_id")["score"]
    assert all(card.member == (notes[card.text] == "member") for card in found)
    by_text = Workspace(data, shared=()).corpus(run.spec.corpus).notes.set_index("text")["note_id"]
    own = [table[by_text[card.text]] for card in found]
    assert np.argsort(own).tolist() == np.argsort([card.familiar for card in found]).tolist()
    assert min(card.familiar for card in found) == 0 and max(card.familiar for card in found) == 1


def test_a_run_that_lacks_a_patient_has_the_hospitals_deck_and_skips_places_whatever_the_coin_said(
    data, smoke_specs, monkeypatch
):
    """As one trained again without a patient: its places are those of the others, so nobody comes twice."""
    workspace = Workspace(data, shared=())
    plain = workspace.run(smoke_specs["plain"].run_id)
    monkeypatch.setattr(deck.owner, "workspace", lambda: workspace)
    scored = plain.table("scores")
    member = scored.loc[scored["member"], "patient_id"].iloc[0]
    lacking = SimpleNamespace(
        id="gpt2-000000000000",
        spec=plain.spec.retrained_spec(member),
        figures_only=False,
        table=lambda name: scored[scored["patient_id"] != member],
    )
    patient = workspace.corpus(plain.spec.corpus).notes.set_index("text")["patient_id"]
    skipped, salts = [], [bytes([number]) for number in range(250)]
    for salt in salts:
        whole, less = deck.cards(plain, salt), deck.cards(lacking, salt)
        assert len(whole) == len(less) and all(
            other is None or (one.text, one.member) == (other.text, other.member)
            for one, other in zip(whole, less, strict=True)
        )
        assert member not in {patient[card.text] for card in less if card is not None}
        skipped += [one.member for one, other in zip(whole, less, strict=True) if other is None]
    assert len(skipped) > 40 and np.mean(skipped) == pytest.approx(0.5, abs=0.2)
    salt = next(
        one for one in salts if deck.cards(lacking, one)[0] is None and any(deck.cards(lacking, one)[: guesses.ALONE])
    )
    shown = [number for number, card in enumerate(deck.cards(lacking, salt)[: guesses.ALONE]) if card is not None]
    monkeypatch.setattr(guesses.st, "session_state", {"auditor": guesses._Own((None, None), salt)})
    guesses.deal(lacking)
    assert guesses.left(lacking) == len(shown) < guesses.left(plain)
    guesses.guess(lacking, guesses.next_card(lacking), True, helped=False)
    assert len(guesses.votes(lacking)) == 1 and guesses.left(lacking) == len(shown) - 1
    rest = deck.cards(plain, salt)[shown[0] + 1 :]
    assert guesses.next_card(plain) == next(iter(rest), None), "what was passed over does not come back"


def test_guesses_are_counted_and_told_with_the_machines(data, smoke_specs):
    app = visit("auditor", run=smoke_specs["plain"].run_id)
    app.button(key="deal").click().run()
    for says in (True, False, True):
        app.button(key=f"guess-{says}").click().run()
        assert not app.exception
    assert "right, which proves nothing yet" in said(app) and "of 3** right" in said(app)
    assert "People alone" in said(app) and "The machine, on the same notes" in said(app)
    assert "This model promises nothing" in "".join(one.value for one in app.caption)
    app.toggle(key="helped").set_value(True).run()
    app.button(key="guess-True").click().run()
    assert "People with a hint: **" in said(app) and "of 1** right" in said(app)
    assert len(app.get("plotly_chart")) == 0, "no flat line before anything is proved"
    assert "at least 7 right guesses in a row" in "".join(one.value for one in app.caption)


def test_after_each_guess_one_learns_whether_it_was_right(data, smoke_specs):
    name = smoke_specs["plain"].run_id
    app = visit("auditor", run=name)
    assert "trained on it." not in said(app)
    app.button(key="deal").click().run()
    for says in (True, False):
        app.button(key=f"guess-{says}").click().run()
        vote = app.session_state["auditor"].votes[name][-1]
        member = vote.right == says
        what = "It was in the training data." if member else "The model was not trained on it."
        assert f"**{'Right' if vote.right else 'Wrong'}.** {what}" in said(app)
        machine = "right" if vote.machine else "wrong"
        assert f"The machine was {machine}{', too' if vote.machine == vote.right else ''}." in said(app)


def test_fewer_right_guesses_than_the_least_prove_nothing():
    """By hand, E(½) = (2^(n + 1) − 1)/(n + 1): 18.1 for 6 right guesses and 31.9 for 7, of 20 needed."""
    assert proof.FEWEST == 7
    six, seven = ([Vote(True, False)] * count for count in (6, 7))
    assert not proof.proves_something(proof.series(six)) and proof.proves_something(proof.series(seven))


def test_a_hand_can_prove_something_and_the_page_says_what_before_the_first_guess(data, smoke_specs):
    assert guesses.ALONE > proof.FEWEST, "with one error to spare"
    app = visit("auditor", run=smoke_specs["dp"].run_id)
    told = "".join(one.value for one in app.caption)
    assert "7 right guesses in a row prove ε ≥ 0.163, 30 in a row prove ε ≥ 1.83" in told
    assert "This model would promise ε = 8 per note if its noise were secret." in told


def test_a_class_follows_its_presenter_and_shares_its_count(data, smoke_specs):
    code, key = classroom.classroom().open()
    host = visit("auditor", room=code, host=key, run=smoke_specs["dp"].run_id)
    assert "deal" not in {button.key for button in host.button}, "the presenter does not guess"
    assert "Ask the class to open this page" in said(host)
    student = visit("auditor", room=code)
    assert "**The class audits** GPT\\-2 · ε = 8 per note" in said(student)
    assert "pick_run" not in {box.key for box in student.selectbox}
    student.button(key="deal").click().run()
    student.button(key="guess-True").click().run()
    other = visit("auditor", room=code)
    assert "of 1** right" in said(other), "one count for the class"
    run = Workspace(data, shared=()).run(smoke_specs["dp"].run_id)
    following = classroom.classroom().deal(code, deck.hospital(run), 1)[1]
    assert following == range(6, 7), "six at a time in a class, where a round is short"
    now = classroom.classroom().counts(code)
    assert [len(votes) for votes in now.votes.values()] == [1]
    host.run()
    promised = "This model would promise ε = 8 per note if its noise were secret."
    assert "of 1** right" in said(host) and promised in "".join(one.value for one in host.caption)


def test_a_promise_is_rounded_up_and_made_with_secret_noise_alone():
    def told(epsilon: float, unit: str, noise_source: str) -> str:
        spec = SimpleNamespace(privacy=PrivacySpec(target_epsilon=8.0, unit=unit))
        privacy = SimpleNamespace(epsilon=lambda: epsilon)
        run = SimpleNamespace(privacy=privacy, spec=spec, noise_source=noise_source)
        return proof.promise(cast(Run, run))

    assert told(0.49931, "patient", "secret") == (
        "This model promises ε = 0.5 per patient. The proof is about exchanging one patient for another: compare half "
        "of the proved ε with it."
    )
    assert told(7.9971, "note", "public seed") == (
        "This model would promise ε = 8 per note if its noise were secret. Reproducible: ε is shown, not promised. "
        "The proof is about whole patients, so it cannot contradict that."
    )
    assert told(math.inf, "note", "secret").startswith("This model promises nothing")
    assert told(math.inf, "note", "secret").endswith("Choose a model with DP to compare.")


def test_the_chart_shows_the_bound_after_each_guess():
    votes = [Vote(True, True)] * 30
    found = proof.series(votes)
    assert list(found) == ["people alone", "the machine, on the same notes"]
    line = proof.chart(found).data[0]
    assert list(line.x) == list(range(31)) and line.y[0] == 0
    assert line.y[1:] == pytest.approx(live_epsilon([True] * 30))
    assert [one[0] for one in line.customdata[:3]] == ["0 guesses", "1 guess", "2 guesses"]
    assert "30 of 30** right, which proves **ε ≥ 1.83**" in proof.sentences(found)[0]


def test_without_runs_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    assert "no trained model with scores" in visit("auditor").info[0].value


def test_a_deck_that_is_used_up_says_so(data, smoke_specs):
    app = visit("auditor", run=smoke_specs["plain"].run_id)
    for _ in range(40):
        keys = {button.key for button in app.button}
        key = "guess-True" if "guess-True" in keys else "deal" if "deal" in keys else None
        if key is None:
            break
        app.button(key=key).click().run()
        assert not app.exception
    assert "Every note of this hospital's deck has been dealt" in app.info[0].value
