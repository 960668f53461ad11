"""The view of the Canaries page about word lists: names in them, with and without noise (Hoory 2021, §3.2)."""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.evaluation.wording import percent
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import CorpusSpec, ModelKind, ModelSpec, Unit, VocabularySpec
from pages.parts.common import chart_style, guess
from pages.parts.common.data_table import data_table
from pages.parts.common.query_params import KEEP
from pages.parts.session import owner, resources

SIZES = (512, 1_024, 2_048, 4_096)
NAMES = {"names": "any of their names", "rare_names": "a unique name"}
SHORT = {"names": "any name", "rare_names": "a unique name"}
NOISES = ("gaussian", "laplace")
ARMS = {"run": ("members", chart_style.RISK), "heldout": ("held-out patients (control)", chart_style.CONTROL)}
MOST_NOTES = 60_000  # counted while the page waits
HOW = """
A BERT or DistilBERT model can be trained with a vocabulary from the notes (Train page). Words of the training notes
that the public word list lacks are counted, WordPiece is trained on the counts, and its pieces become new entries. No
model is trained for this chart: it only reads the list, as anyone who receives the model can.

- **No noise**: every word counts as often as it occurs, as word lists are usually made.
- **ε**: each note (or each patient, if that is the first model's unit) adds 1 to at most 10 different words, drawn
  from its own words alone. The counts get noise, and words below a threshold are dropped (Hoory et al. 2021, §3.2).
  *Laplace* is their mechanism, with kε and kδ for k words; *Gaussian* noise of σ = s·√k covers k words at once and
  keeps rarer words (Balle & Wang 2018; Gopi et al. 2020). δ = 10⁻⁶. Dots: the mean of 5 draws of the noise; bars:
  their range. Which 10 words count is drawn once, so the bars show the chance of the noise alone.
- **Control**: held-out patients, whose notes were not counted. A name that several people share can enter because of
  the others; *a unique name*, which no one else in the cohort has, shows that this person's notes were there.
"""


def word_list_view(chosen: dict[str, Run], knobs: DeltaGenerator) -> None:
    """Names in the word list that the first run's notes would give, for several ε, and names in the runs' lists."""
    name, run = next(iter(chosen.items()))
    spec = run.spec
    kind: ModelKind = "bert" if spec.model.kind == "bert" else "distilbert"
    notes = len(owner.workspace().corpus(spec.corpus, store=False).training_notes())
    if notes > MOST_NOTES:
        st.info(
            f"Counting {notes:,} training notes takes minutes. Use the command line: "
            "`python -m core words --corpus FOLDER --json`."
        )
        return
    size = knobs.segmented_control(
        "Maximum new entries", SIZES, default=4_096, required=True, key="words_size", format_func="{:,}".format, **KEEP
    )
    noise = knobs.segmented_control(
        "Noise", NOISES, default="gaussian", required=True, key="words_noise", format_func=str.capitalize, **KEEP
    )
    column = knobs.segmented_control(
        "Names to count",
        list(NAMES),
        default="rare_names",
        required=True,
        key="words_whose",
        format_func=SHORT.__getitem__,
        **KEEP,
    )
    asked = VocabularySpec(epsilon=1.0, pieces=size, noise=noise)
    table = _table(spec.corpus.digest(), kind, asked, spec.privacy.unit, spec.corpus, owner.workspace())
    if table.empty:
        st.info("The notes of this cohort came without names, so there is nothing to look for in a word list.")
        return
    answer = guess.first(
        "The most common words of the notes are added to a model's word list, without noise. For how many members does "
        "the list contain a unique name?",
        ["none", "1 in 10", "half", "nearly all"],
        key="word_list",
    )
    if answer is None:
        return
    guess.show_answer(answer, _exact_sentence(table, column, size))
    chart_style.show(
        names_chart(table, column),
        key="word-list-chart",
        alt="Share of patients with a name in the word list against ε, for members and held-out patients",
    )
    data_table(table, name="word-list")
    with st.expander("How is this computed?"):
        st.markdown(HOW)
    for each, one in chosen.items():
        _own_list(each, one)


@resources.cached_data(max_entries=32, show_spinner="Counting words and training word lists")
def _table(
    digest: str, kind: ModelKind, asked: VocabularySpec, unit: Unit, _corpus: CorpusSpec, _workspace: Workspace
) -> pd.DataFrame:
    from core.evaluation.memorisation.vocabulary import names_by_epsilon
    from core.models.build import load  # torch: seconds, not at first paint

    return names_by_epsilon(load(ModelSpec(kind=kind)), _workspace.corpus(_corpus, store=False), asked, unit=unit)


def _exact_sentence(table: pd.DataFrame, column: str, size: int) -> str:
    exact = table[table["epsilon"] == math.inf].set_index("arm")
    shares = {arm: percent(float(exact.loc[arm, column])) if arm in exact.index else "–" for arm in ARMS}
    return (
        f"With {min(size, int(exact['entries'].max())):,} entries and no noise, the list contains {NAMES[column]} for "
        f"{shares['run']} of the members and {shares['heldout']} of the held-out patients."
    )


def names_chart(table: pd.DataFrame, column: str) -> go.Figure:
    """Share of patients against ε, one line per arm: the mean over draws of the noise, with their range as bars."""
    figure = go.Figure()
    labels = {epsilon: "no noise" if math.isinf(epsilon) else f"{epsilon:g}" for epsilon in table["epsilon"].unique()}
    for arm, (name, colour) in ARMS.items():
        rows = table[table["arm"] == arm].groupby("epsilon")
        share, kept = rows[column].agg(["mean", "min", "max"]), rows["kept"].mean()
        if share.empty:
            continue
        figure.add_scatter(
            x=[labels[epsilon] for epsilon in share.index],
            y=share["mean"],
            name=name,
            mode="lines+markers",
            line={"color": colour, "width": 3},
            marker={"size": 12},
            cliponaxis=False,
            error_y={
                "array": share["max"] - share["mean"],
                "arrayminus": share["mean"] - share["min"],
                "color": colour,
                "thickness": 1.5,
            },
            customdata=pd.DataFrame({"kept": kept, "share": chart_style.hover_texts(share["mean"])}, index=share.index),
            hovertemplate="ε = %{x}: %{customdata[1]}, %{customdata[0]:,.0f} words kept<extra>" + name + "</extra>",
        )
    figure.update_xaxes(type="category", title="ε for the words")
    figure.update_yaxes(title=f"share with {NAMES[column]}", rangemode="tozero", tickformat="~%")
    figure.update_layout(height=430, **chart_style.LAYOUT)
    return figure


def _own_list(name: str, run: Run) -> None:
    """The names in a run's own word list."""
    entries = run.vocabulary
    if entries is None:
        st.caption(f"“{name}” uses the public word list, which has no words from the notes.")
        return
    from core.evaluation.memorisation.vocabulary import named_entries

    found = named_entries(entries, owner.workspace().corpus(run.spec.corpus, store=False).without(run.spec.without))
    st.markdown(
        f"**“{name}”** has {len(entries):,} entries from the notes; {len(found):,} of them are patients' names."
    )
    if len(found):
        data_table(found, name=f"names-in-{run.id}", label="These names, and how many patients have them")
