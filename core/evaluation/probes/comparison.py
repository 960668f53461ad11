"""The probes of several models side by side: the one figure that decides each probe's verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from core.attacks.probes.cosine import CONTEXTUAL
from core.attacks.probes.cosine import PROBE as COSINE
from core.attacks.probes.fill_in import NAME
from core.attacks.probes.fill_in import PROBE as FILL_IN
from core.attacks.probes.generated import NAMES
from core.attacks.probes.half_name import LAST, OWN
from core.attacks.probes.half_name import PROBE as HALF_NAME
from core.attacks.probes.mlp import PROBE as NETWORK
from core.attacks.probes.name_seen import METHOD as REGRESSION
from core.attacks.probes.name_seen import PROBE as NAME_SEEN
from core.attacks.probes.per_condition import PROBE as PER_CONDITION
from core.attacks.probes.table import TARGET
from core.evaluation.probes.cards import cards
from core.evaluation.probes.tables import AUC, BOTH, DIFFERENCE, OWN_MINUS_OTHER, TOP100
from core.evaluation.probes.verdicts import Look

DECISIVE: dict[str, tuple[str, str, str, str]] = {  # probe → measure, method, split, bin of the figure for its verdict
    FILL_IN: (AUC, OWN_MINUS_OTHER, "member", "all"),
    NETWORK: (AUC, OWN_MINUS_OTHER, "member", "all"),
    PER_CONDITION: (AUC, NAME, "member", "all"),
    COSINE: (DIFFERENCE, f"{CONTEXTUAL}, {OWN_MINUS_OTHER}", "member", "all"),
    NAME_SEEN: (AUC, REGRESSION, BOTH, "all"),
    HALF_NAME: (AUC, OWN, BOTH, LAST),
    NAMES: (TOP100, NAME, "member", "all"),
}


def compared(figures: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The decisive figure and the verdict of every probe in several tables of figures.

    Args:
        figures: Tables of figures by name.

    Returns:
        Columns row, probe, of (the name), measure, method, value, low, high, n, verdict, blind (what random guessing
        gets: 0 for a difference, 0.5 for an AUC). A table without a probe has no row for it; a model that wrote no name
        has a row without a value.
    """
    rows = []
    for name, table in figures.items():
        look, blind = Look(table), table.set_index(["probe", "measure", "method", "model", "split", "bin"])["blind"]
        for card in cards(table):
            measure, method, split, bin_ = DECISIVE[card.probe]
            found = look(card.probe, measure, method, split=split, bin=bin_)
            numbers = (found.value, found.low, found.high, found.n)
            guessed = float(blind.get((card.probe, measure, method, TARGET, split, bin_), math.nan))
            rows.append((card.row, card.probe, name, measure, method, *numbers, card.verdict, guessed))
    columns = ["row", "probe", "of", "measure", "method", "value", "low", "high", "n", "verdict", "blind"]
    return pd.DataFrame(rows, columns=columns)
