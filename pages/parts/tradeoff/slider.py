"""The ε slider: it stops only at measured ε. A click on a marker in the charts moves it, too."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import streamlit as st

from core.common.formatting import setting_text
from pages.parts.pickers import linked_choice
from pages.parts.pickers.epsilon_slider import epsilon_key, pick

KEY, CLICKED, ASKED = "at", "clicked", "asked_epsilon"
LABEL = "ε: ← more private · more useful →"


def choose(measured: Iterable[float]) -> float:
    """The slider over the measured ε of a curve. It starts at 8, or at the measured ε that is nearest to it.

    A link, also one that has changed since, or another curve may ask for an ε that this curve lacks: the slider then
    goes to the nearest measured one and says so.
    """
    options = {epsilon_key(epsilon): epsilon for epsilon in sorted(set(measured))}
    if len(options) == 1:
        (epsilon,) = options.values()
        st.markdown(f"**ε = {setting_text(epsilon)}**, the only one that was measured")
        return epsilon
    clicked = st.session_state.pop(CLICKED, None)
    linked = st.query_params.get(KEY)
    followed = linked if linked != st.session_state.get(f"linked_{KEY}") and _number(linked) is not None else None
    before = (st.session_state.get(KEY), linked, st.session_state.get(f"picked_{KEY}"))
    asked = next(filter(None, (clicked, followed, *before)), None)
    if asked not in options:
        wanted = _number(asked)
        st.session_state[KEY] = nearest(options, 8.0 if wanted is None else wanted)
        moved = wanted is not None and wanted != options[st.session_state[KEY]]
        st.session_state[ASKED] = (wanted, st.session_state[KEY]) if moved else None
    elif clicked:
        st.session_state[KEY] = clicked
        linked_choice.share(KEY, KEY, options)
    chosen = pick(LABEL, KEY, options, epsilon_key(8.0))
    _say_moved(chosen, options[chosen])
    return options[chosen]


def nearest(options: Mapping[str, float], wanted: float) -> str:
    """The option nearest to an ε on a log axis; ∞ only if it is wanted or the only one."""

    def distance(label: str) -> float:
        epsilon = options[label]
        if math.isinf(wanted):
            return -epsilon  # ∞ itself, else the largest
        return math.inf if math.isinf(epsilon) else abs(math.log(epsilon / wanted))

    return min(options, key=distance)


def _say_moved(chosen: str, epsilon: float) -> None:
    """While the slider is where an unmeasured ε led it, say that."""
    asked = st.session_state.get(ASKED)
    if asked is not None and asked[1] == chosen:
        wanted, nearby = setting_text(asked[0]), setting_text(epsilon)
        st.caption(f"ε = {wanted} was not measured on these runs. The nearest measured ε is {nearby}.")
    elif asked is not None:
        st.session_state[ASKED] = None


def _number(text: object) -> float | None:
    """The ε that a link asks for; None if it is no number above 0."""
    try:
        wanted = math.inf if text == "∞" else float(str(text))
    except ValueError:
        return None
    return wanted if wanted > 0 else None
