"""Membership: can an attacker tell whose notes a model was trained on, and what does the guarantee allow?"""

from __future__ import annotations

import streamlit as st

from core.attacks.battery import REGISTRY
from core.attacks.membership.scores import LOSS
from core.evaluation.membership.units import LENGTHS
from core.runs.run import Run
from pages.parts.common import layout, shell
from pages.parts.common.query_params import drop_unless_offered
from pages.parts.jobs import battery
from pages.parts.membership import data
from pages.parts.membership.sentences import WORDS
from pages.parts.membership.views import OVERLAP, VIEWS, Choice
from pages.parts.pickers import run_picker
from pages.parts.session import owner

shell.page("membership", "Can an attacker who has the model tell whose notes it was trained on?", guesses=True)


def attacks_of(chosen: dict[str, Run]) -> list[str]:
    """The attacks that were run on at least one of these runs, in the battery's order."""
    made = set().union(*map(data.attacks, chosen.values()))
    return [name for name in REGISTRY if name in made]


def complete_of(chosen: dict[str, Run]) -> set[str]:
    """The attacks that scored all patients of one of these runs, so that they can be compared patient by patient."""
    return set().union(*map(data.complete_attacks, chosen.values()))


def unit(chosen: dict[str, Run]) -> tuple[str, str]:
    """What is judged: the level (notes, admissions, patients) and the length of notes.

    Admissions are offered where one of these runs has them: elsewhere each of them is its patient.
    """
    several = any(map(data.has_admissions, chosen.values()))
    levels = {name: words for name, (words, _) in WORDS.items() if several or name != "admission"}
    drop_unless_offered("level", levels, levels.__getitem__)
    level = st.segmented_control(
        "Evaluate by",
        list(levels),
        default="sample",
        required=True,
        key="level",
        bind="query-params",
        format_func=levels.__getitem__,
    )
    length = st.segmented_control(
        "Notes", list(LENGTHS), default="all", required=True, key="length", bind="query-params"
    )
    return level, length


runs = run_picker.with_tables(run_picker.audited_first(owner.workspace().runs()))
if runs:
    picture, knobs = layout.picture_and_knobs()
    drop_unless_offered("view", VIEWS)
    with picture:
        view = st.segmented_control(
            "View",
            list(VIEWS),
            default="ROC",
            required=True,
            key="view",
            bind="query-params",
            label_visibility="collapsed",
        )
    with knobs:
        picked = run_picker.pick_two(runs)
        possible = attacks_of(picked)
        complete = complete_of(picked)
        wanted = {"All attacks": possible, OVERLAP: [name for name in possible if name in complete]}
        usual = [name for name in (LOSS, "ratio base") if name in possible]
        chosen = st.multiselect(
            "Attacks",
            possible,
            default=wanted.get(view, usual),
            key=f"attacks-{'-'.join([view, *wanted.get(view, ())])}",  # every attack of these runs, not of others
            format_func=lambda name: f"{name} ({data.access(name)})",
        )
        level, length = ("patient", "all") if view == OVERLAP else unit(picked)
    with picture, layout.fresh("answer", (view, *(run.id for run in picked.values()))):
        if chosen:
            VIEWS[view](Choice(picked, chosen, level, length, knobs))
        else:
            st.info("Choose at least one attack.")
        battery.offer(picked)
        run_picker.say_left_out()
else:
    st.info(
        "There is no trained model yet. Train one to see how well an attacker tells its training notes from others.",
        icon=":material/person_search:",
    )
    shell.link_to_train()
