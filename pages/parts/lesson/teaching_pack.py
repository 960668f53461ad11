"""For the teacher: the handout with the figures of this lesson's runs, and the files of docs/teaching."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import streamlit as st

from core.attacks.prompts import PROMPTS
from core.common.program import PROGRAM
from core.evaluation import wording
from core.evaluation.comparison import differences
from core.phi.fields import FIELD
from core.spec.model_names import MODEL_NAMES
from pages.parts.lesson.figures import ATTEMPTS, AUC, NAMES, PERPLEXITY, Figures, Value
from pages.parts.lesson.phrases import epsilon_text, perplexity_name

if TYPE_CHECKING:
    from core.evaluation.teaching.exercises import Figure
    from core.evaluation.teaching.handout import Handout

FOLDER = PROGRAM / "docs" / "teaching"
FILES = (  # label, file, MIME type, icon
    ("50-minute plan", "plan.md", "text/markdown", "schedule"),
    ("Exercises", "exercises.md", "text/markdown", "assignment"),
    ("Key", "key.md", "text/markdown", "key"),
    ("Notebook", "phi_leak_lab.ipynb", "application/x-ipynb+json", "code"),
)


def offer(found: Figures) -> None:
    """Downloads for the teacher: a handout to print, and the pack's files.

    The files are made when the fold opens, not when a button is pressed: a press that meets a page drawn anew asks for
    a file that the server no longer knows.
    """
    with st.expander(
        "Teaching pack: handout, plan, exercises", icon=":material/print:", key="pack-fold", on_change="rerun"
    ) as box:
        if not box.open:
            return
        st.markdown(
            "The handout has the figures of this lesson's runs: open it in a browser and print two pages of A4. The "
            "figures are on the back, so that students can predict first."
        )
        with st.container(horizontal=True):
            st.download_button(
                "Handout (HTML, prints on A4)",
                _html(found),
                "handout.html",
                "text/html",
                icon=":material/print:",
                type="primary",
                on_click="ignore",
                key="pack-handout",
            )
            for label, name, mime, icon in FILES:
                st.download_button(
                    label,
                    (FOLDER / name).read_bytes(),
                    name,
                    mime,
                    icon=f":material/{icon}:",
                    on_click="ignore",
                    key=f"pack-{name}",
                )


def _html(found: Figures) -> str:
    from core.evaluation.teaching.handout import render

    return render(handout(found))


def handout(found: Figures) -> Handout:
    """What the handout says about these runs: the public model, every ε, and no privacy."""
    from core.evaluation.teaching.handout import Handout, Training

    privacy = found.sweep.privacy

    def measured(name: str, arm: str, epsilon: float, source: str = "run", right: str = "") -> Training:
        names, auc, perplexity = (found.at(metric, source, epsilon) for metric in (NAMES, AUC, PERPLEXITY))
        return Training(name, arm, _or_none(names), _or_none(auc), _or_none(perplexity), right)

    field = found.coincidental_field
    rows = [measured("public model, read no notes", "control", math.inf, "base")]
    for epsilon in found.epsilons:
        right = wording.right_of_100(wording.most_right_guesses(epsilon, privacy.delta))
        right = wording.NEARLY_ALL if right == wording.ALL_RIGHT else right
        rows.append(measured(epsilon_text(epsilon, found), "private", epsilon, right=right))
    rows.append(measured("no privacy", "run", math.inf, right="no limit"))
    return Handout(
        model=MODEL_NAMES[found.sweep.model.kind],
        patients=found.counted(NAMES),
        held_out=found.counted(NAMES, "heldout"),
        texts=found.counted(ATTEMPTS),
        openings=tuple(prompt.text for prompt in PROMPTS),
        unit=privacy.unit,
        delta=privacy.delta,
        perplexity_name=perplexity_name(found),
        trainings=tuple(rows),
        control=_or_none(found.at(NAMES, "heldout")),
        coincidence=(
            FIELD[field].label,
            _figure(found.measured(f"field_patients:{field}")),
            _figure(found.measured(f"field_patients:{field}", "heldout")),
        ),
        public_noise=any(map(found.public_noise, found.epsilons)),
        differences=differences([found.plain, found.private]),
        runs=tuple(run.id for epsilon in (*found.epsilons, math.inf) for run in found.runs_at(epsilon)),
    )


def _figure(value: Value) -> Figure:
    from core.evaluation.teaching.exercises import Figure

    return Figure(value.value, value.low, value.high)


def _or_none(value: Value | None) -> Figure | None:
    return None if value is None else _figure(value)
