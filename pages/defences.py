"""Defences: the same patients and attacks under each defence, side by side."""

from __future__ import annotations

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.evaluation.defences.side_by_side import Defence, lineup, settings
from core.evaluation.sweep.sweeps import Sweep, sweeps_of
from core.evaluation.wording import perplexity_name, unbroken
from pages.parts.access import viewer
from pages.parts.common import chart_style, guess, layout, shell
from pages.parts.common.data_table import data_table
from pages.parts.common.public_noise import caption_public_noise
from pages.parts.common.query_params import KEEP
from pages.parts.defences import filter_view, sentences
from pages.parts.defences.charts import risk_and_cost
from pages.parts.jobs import monitor
from pages.parts.pickers import run_picker, sweep_picker
from pages.parts.session import owner, resources
from pages.parts.tradeoff.drawn import Drawn, risks

shell.page(
    "defences",
    "The same patients and the same attacks under each defence: what does it cost, and what still leaks?",
    guesses=True,
)

EPSILONS = (0.5, 1.0, 2.0, 5.0, 8.0, 10.0)
RECALLS = (0.8, 0.9, 0.95, 0.99, 1.0)


@resources.cached_data(max_entries=50, show_spinner=False)
def table_of(
    root: str, run_ids: tuple[str, ...], _defences: list[Defence], keys: tuple[str, ...]
) -> tuple[pd.DataFrame, str]:
    """The comparison of these defences in the data folder `root`, and which detector its output filter used.

    All arguments without `_` are the cache's key.

    Args:
        root: The data folder.
        run_ids: The ids of all runs in it.
        _defences: The defences that are compared.
        keys: The run id of each defence.
    """
    from core.corpus.cohort_detector import cohort_detector
    from core.evaluation.defences.side_by_side import measured
    from core.phi.detector.engine import rules

    detector = cohort_detector(_defences[0].spec.corpus)
    if detector.tags:  # 17 ms a text: minutes in a page, and its memory in the server
        detector = rules("The tagger of names is too slow for a page; `python -m core defences` uses it.")
    return measured(_defences, owner.workspace(), detector), sentences.searched(detector)


def choose(found: list[Sweep], knobs: DeltaGenerator) -> list[Defence]:
    """The settings: model and cohort, ε, and the recall of scrubbing."""
    names = sweep_picker.distinct_names(found, sweep_picker.setting_name)
    sweep = sweep_picker.pick("Model and cohort", found, names, key="family", widget="whose", place=knobs)
    with knobs:
        sweep_picker.say_unknown("family", found, sweep, names[sweep.id])
    epsilon = knobs.select_slider("ε of the DP runs", EPSILONS, 8.0, key="dp_at", format_func="{:g}".format, **KEEP)
    share = knobs.select_slider(
        "Scrubbing recall",
        RECALLS,
        0.95,
        key="recall",
        format_func=lambda value: f"{value:.0%}".replace("%", " %"),
        **KEEP,
    )
    return lineup(sweep, epsilon=epsilon, recall=share)


def train_missing(defences: list[Defence], table: pd.DataFrame) -> None:
    """One button that trains every missing run; those in progress are named instead."""
    untrained = set(table.loc[table["training_seconds"].isna(), "defence"])
    specs = {defence.spec.run_id: defence for defence in reversed(defences) if defence.key in untrained}
    if not specs:
        return
    waiting = [name for name in specs if (job := monitor.status(name)) is not None and job.active]
    left = [defence for name, defence in reversed(specs.items()) if name not in waiting]

    def train() -> None:
        for defence in left:
            monitor.submit(defence.spec)

    with st.container(horizontal=True, vertical_alignment="center"):
        if left:
            label = f"Train the missing runs ({len(left)})" if len(left) > 1 else "Train the missing run"
            locked, icon = viewer.locked("train"), ":material/model_training:"
            st.button(label, icon=icon, key="train-missing", type="primary", on_click=train, **locked)
        if waiting:
            st.caption(f"In progress: {', '.join(specs[name].name for name in waiting)}.")
        shell.link("train", "Watch the queue", icon=":material/visibility:")


def choose_risk(known: dict[str, Drawn], knobs: DeltaGenerator) -> str:
    """Which risk is drawn."""
    return knobs.segmented_control(
        "Risk",
        list(known),
        default=next(iter(known)),
        required=True,
        key="risk",
        **KEEP,
        format_func=lambda name: known[name].label,
    )


def draw(guessed: str, defences: list[Defence], table: pd.DataFrame, knobs: DeltaGenerator) -> None:
    """The answer and the chart for the chosen risk; sentences and figures of each defence in folds."""
    known, kind = risks(set(table["metric"])), defences[0].spec.model.kind
    useful = perplexity_name(kind)
    name = choose_risk(known, knobs)
    rows = table[table["metric"] == name]
    other = "" if name == sentences.NAMES else sentences.lowest(rows, known[name])
    if other:  # one sentence alone: with both, the chart's axes are below the window's end
        st.markdown(unbroken(other))
    else:
        guess.show_answer(guessed, unbroken(sentences.answer(table, kind)))
    figure = risk_and_cost(rows[rows["seeds"] > 0], known[name], kind)
    st.html(chart_style.legend_html(figure))
    chart_style.show(
        figure,
        key="defences-chart",
        alt=f"{known[name].label} and {useful} under each defence, with 95\u00a0% intervals and controls",
    )
    train_missing(defences, table)
    with st.expander("Each defence and its figures"):
        for defence, (_, row) in zip(defences, rows.iterrows(), strict=True):
            st.markdown(unbroken(f"**{defence.name}.** {defence.sentence} {sentences.found(row, name)}"))
    with st.expander("Risk as a table"):
        st.dataframe(
            sentences.shown(rows, known[name], kind),
            hide_index=True,
            alt="Each defence with its risk, its control and its cost",
        )
    data_table(table, name="defences", label="Every figure of every defence")
    with st.expander("How is this computed?"):
        st.markdown(sentences.HOW)


runs = owner.workspace().runs()
found = settings(sweeps_of(runs))
if found:
    picture, knobs = layout.picture_and_knobs()
    defences = choose(found, knobs)
    run_ids = tuple(sorted(run.id for run in runs))
    with picture:
        place = layout.fresh("answer", defences[0].spec.run_id)
    with place:
        with st.spinner("Filtering the generated texts …"):
            specs = tuple(defence.spec.run_id for defence in defences)
            table, searched = table_of(str(owner.workspace().root), run_ids, defences, specs)
        guessed = guess.first(sentences.QUESTION, sentences.ANSWERS, key="defences")
    if guessed is not None:
        with place:
            draw(guessed, defences, table, knobs)
            if searched:
                st.caption(searched)
            counted = [run for one in defences for run in one.runs(runs)]
            if counted and (told := run_picker.shared_values_caption(counted[0])):
                st.caption(told)
        caption_public_noise({one.name: run for one in defences for run in one.runs(runs)})
        bare = [run for run in defences[0].runs(runs) if run.spec.model.kind == "gpt2"]
        if bare:
            filter_view.show(bare[0])
else:
    st.info("There is no trained model to defend yet. Train one without privacy first.", icon=":material/shield:")
    shell.link_to_train()
