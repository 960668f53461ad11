from __future__ import annotations

import pandas as pd
import pytest

from core.attacks.memorisation import prefix
from core.attacks.memorisation.prefix import FEWEST_REST, PREFIX_COLUMNS, REST_TOKENS, asked_notes, prefix_attack
from core.models.encoding import decode, encode
from core.models.generation.generate import sample

KNOWN = "Maria Keller was seen today for chest pain, and the nurse gave her 40 mg of the usual drug at 14:30."
OTHER = "Peter Brown came in with a cough, and the doctor asked him to come back on Monday or call 555-0142."


def notes(*texts: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "note_id": [f"N{number}" for number in range(len(texts))],
            "patient_id": [f"P{number}" for number in range(len(texts))],
            "split": ["member" if number % 2 == 0 else "heldout" for number in range(len(texts))],
            "text": texts,
        }
    )


@pytest.fixture(scope="module")
def knows_it(teach):
    return teach("gpt2", [KNOWN], 120)


def naive(lm, text: str, prefix_tokens: int) -> int:
    """Tokens of the rest that greedy decoding, one text at a time, writes as they are."""
    ids = encode(lm, [text])[0]
    start, rest = decode(lm, ids[:prefix_tokens]), ids[prefix_tokens : prefix_tokens + REST_TOKENS]
    assert encode(lm, [start])[0] == ids[:prefix_tokens], "choose a prefix that ends with a word"
    written = sample(lm, [start], new_tokens=REST_TOKENS, seeds=[0], greedy=True)[0]
    tokens = encode(lm, [start + written])[0][prefix_tokens:]
    return next((n for n in range(len(rest), 0, -1) if tokens[:n] == rest[:n]), 0)


def test_a_note_known_by_heart_comes_back_and_its_span_is_the_rest(knows_it):
    found = prefix_attack(knows_it, notes(KNOWN, OTHER), prefixes=(4, 8))
    known, other = (found[found["note_id"] == note] for note in ("N0", "N1"))
    assert known["verbatim"].all() and (known["matched_tokens"] == known["rest_tokens"]).all()
    assert not other["verbatim"].any()
    for row in known.itertuples():
        ids = encode(knows_it, [KNOWN])[0]
        assert KNOWN[: row.prefix_end] == decode(knows_it, ids[: row.prefix_tokens])
        matched = ids[row.prefix_tokens : row.prefix_tokens + row.matched_tokens]
        assert KNOWN[row.prefix_end : row.matched_end] == decode(knows_it, matched)


@pytest.mark.parametrize("text", [KNOWN, OTHER, KNOWN[:40] + OTHER[20:]])
def test_one_pass_finds_what_greedy_decoding_writes(knows_it, untrained, text):
    for lm in (knows_it, untrained["gpt2"]):
        ends = [
            n
            for n in range(3, 25)
            if encode(lm, [decode(lm, encode(lm, [text])[0][:n])])[0] == encode(lm, [text])[0][:n]
        ][::5]
        found = prefix_attack(lm, notes(text), prefixes=ends)
        assert found["matched_tokens"].tolist() == [naive(lm, text, prefix_tokens) for prefix_tokens in ends]


def test_a_batch_of_notes_gives_what_each_gives_alone(knows_it, monkeypatch):
    texts = [KNOWN, OTHER, KNOWN + " " + OTHER, OTHER + " " + KNOWN]
    together = prefix_attack(knows_it, notes(*texts), prefixes=(4, 8))
    alone = [prefix_attack(knows_it, notes(*texts).iloc[[n]], prefixes=(4, 8)) for n in range(4)]
    pd.testing.assert_frame_equal(together, pd.concat(alone, ignore_index=True))
    monkeypatch.setattr(prefix, "BATCH_TOKENS", 50)
    pd.testing.assert_frame_equal(together, prefix_attack(knows_it, notes(*texts), prefixes=(4, 8)))


def test_the_rest_is_cut_and_short_notes_are_left_out(untrained):
    lm = untrained["gpt2"]
    table = notes(KNOWN, "Short.", KNOWN + " " + OTHER + " " + KNOWN)
    tokens = [len(ids) for ids in encode(lm, table["text"].tolist())]
    assert asked_notes(lm, table, seed=0, prefixes=(4, 8))["note_id"].tolist() == ["N0", "N2"]
    exactly = tokens[0] - FEWEST_REST
    assert "N0" in asked_notes(lm, table, seed=0, prefixes=(exactly,))["note_id"].tolist()
    assert "N0" not in asked_notes(lm, table, seed=0, prefixes=(exactly + 1,))["note_id"].tolist()
    found = prefix_attack(lm, table, prefixes=(4, 8)).set_index(["note_id", "prefix_tokens"])
    assert found.loc[("N2", 4), "rest_tokens"] == REST_TOKENS
    assert found.loc[("N0", 4), "rest_tokens"] == min(REST_TOKENS, tokens[0] - 4)
    assert ("N1", 8) not in found.index, "nothing is left to ask for"


def test_notes_are_drawn_by_seed_and_counted_a_split(untrained):
    table = notes(*[f"{KNOWN} {number}" for number in range(20)])
    drawn = [asked_notes(untrained["gpt2"], table, seed=seed, prefixes=(4,), limit=5) for seed in (0, 0, 1)]
    assert drawn[0]["note_id"].tolist() == drawn[1]["note_id"].tolist() != drawn[2]["note_id"].tolist()
    assert drawn[0]["split"].value_counts().to_dict() == {"member": 5, "heldout": 5}


def test_table_and_progress(untrained):
    seen = []
    found = prefix_attack(untrained["gpt2"], notes(KNOWN, OTHER), role="base", on_progress=lambda *at: seen.append(at))
    assert list(found.columns) == list(PREFIX_COLUMNS) and set(found["model"]) == {"base"}
    assert seen[-1] == (2, 2)
    assert prefix_attack(untrained["gpt2"], notes()).empty


def test_what_makes_no_sense_is_refused(untrained):
    with pytest.raises(ValueError, match="does not continue"):
        prefix_attack(untrained["bert"], notes(KNOWN))
    with pytest.raises(ValueError, match="at least one token"):
        prefix_attack(untrained["gpt2"], notes(KNOWN), prefixes=(0, 4))
    with pytest.raises(ValueError, match="do not fit"):
        prefix_attack(untrained["gpt2"], notes(KNOWN), prefixes=(10_000,))


def test_a_sample_is_drawn_as_if_all_notes_had_been_read(untrained):
    """Every third note is too short; whatever the limit, the same order of notes is gone through."""
    table = notes(*[f"{KNOWN} {number}" if number % 3 else "Short." for number in range(60)])
    whole = asked_notes(untrained["gpt2"], table, seed=3, prefixes=(4,), limit=100)
    assert len(whole) == 40 and not whole["text"].eq("Short.").any()
    for limit in (2, 7, 15):
        drawn = asked_notes(untrained["gpt2"], table, seed=3, prefixes=(4,), limit=limit)
        assert drawn["split"].value_counts().to_dict() == {"member": limit, "heldout": limit}
        larger = asked_notes(untrained["gpt2"], table, seed=3, prefixes=(4,), limit=limit + 3)
        assert set(drawn["note_id"]) <= set(larger["note_id"]) <= set(whole["note_id"])
    assert asked_notes(untrained["gpt2"], table.head(0), seed=3).empty
