"""The table of Which ε?: short cells, so that all columns fit on the screen, and what its marks mean."""

from __future__ import annotations

import pandas as pd

from core.evaluation.figures.limited import UTILITY
from core.evaluation.sweep.limits import Limits
from core.evaluation.sweep.recommendation import Recommendation
from pages.parts.tradeoff.recommendation_view import _attacks_caption, _rests_on, _wide

COLUMNS = ["unit", "epsilon", "measure", "value", "low", "high", "limit", "met", "seeds", "attack", "attacks"]
MOST_LETTERS = 30  # in a cell: eight columns share 1100 pixels


def table(*rows: tuple) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COLUMNS)


FOUND = table(
    ("note", 8.0, "auc_strongest", 0.56, 0.52, 0.61, 0.6, False, 1, "rmia", 10),
    ("note", 8.0, UTILITY, 0.65, 0.64, 0.65, 0.25, True, 3, "", 0),
    ("note", 30.0, "auc_strongest", 0.53, 0.50, 0.56, 0.6, False, 3, "loss", 1),
    ("note", 30.0, UTILITY, 0.73, 0.72, 0.73, 0.25, True, 3, "", 0),
)
LIMITS = Limits({"auc_strongest": 0.6}, 0.25)
SPENT = pd.DataFrame({"unit": ["note", "note"], "epsilon": [8.0, 30.0], "tokens": [1e7, 1e7], "seconds": [90.0, 120.0]})


def test_a_cell_holds_the_figure_alone_and_the_attack_has_a_column():
    wide = _wide(FOUND, SPENT).set_index("ε")
    assert list(wide.columns[-4:]) == ["attack", "seeds", "time", "all met"]
    assert wide.map(lambda cell: len(str(cell))).max().max() <= MOST_LETTERS
    assert wide.loc["8 per note", "membership AUC"] == "✗ 0.56 (0.52 to 0.61)"
    assert wide.loc["8 per note", ["attack", "seeds", "time"]].tolist() == ["rmia, of 10", "1 of 3", "1.5 min"]
    assert wide.loc["30 per note", "membership AUC"] == "? 0.53 (0.50 to 0.56)", "below 0.6, and yet not met"
    assert wide.loc["30 per note", ["attack", "seeds"]].tolist() == ["loss only", "3"]
    assert wide["all met"].tolist() == ["✗", "?"], "a mark as in the cells: a check box looks as if it could be pressed"
    assert _wide(FOUND.assign(met=True), SPENT)["all met"].tolist() == ["✓", "✓"]


def test_too_little_usefulness_is_not_met_and_no_question():
    """A limit on usefulness is a lower one: a high end below it is a clear failure, whatever smaller ε do."""
    table = FOUND.assign(limit=FOUND["limit"].where(FOUND["measure"] != UTILITY, 0.9), met=False)
    wide = _wide(table, SPENT).set_index("ε")
    assert wide["gain kept"].str[0].tolist() == ["✗", "✗"] and wide["all met"].tolist() == ["✗", "✗"]
    assert _attacks_caption(table[table["measure"] == UTILITY]) == ""


def test_the_caption_names_the_attacks_in_words_and_explains_the_question_mark():
    told = _attacks_caption(FOUND)
    assert "the likelihood ratio to several reference models (RMIA), the loss attack." in told
    assert "a smaller ε fails under a full audit" in told
    assert "smaller ε" not in _attacks_caption(FOUND[FOUND["epsilon"] == 8.0])
    assert _attacks_caption(FOUND[FOUND["measure"] == UTILITY]) == ""


def test_a_recommendation_says_if_it_rests_on_one_training_or_one_attack():
    def told(epsilon: float | None) -> str:
        return _rests_on(Recommendation(LIMITS, epsilon, None, FOUND, FOUND, (), unit="note"))

    assert told(30.0) == "rests on one attack, the loss" and told(None) == ""
    assert told(8.0) == "rests on one run for membership AUC", "the usefulness is that of three"
    alone = FOUND.assign(seeds=1)
    found = Recommendation(LIMITS, 30.0, None, alone, alone, (), unit="note")
    assert _rests_on(found) == "rests on one run and one attack, the loss"
