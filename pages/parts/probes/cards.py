"""The cards of the Probes page: a question, a guess, then the answer with its controls and its data."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
import streamlit as st

from core.attacks.probes import fill_in, generated
from core.corpus.icd_codes import condition_words
from core.evaluation.probes.cards import Card
from core.evaluation.wording import perplexity_text
from core.runs.run import Run
from pages.parts.common import chart_style, guess
from pages.parts.common.data_table import data_table
from pages.parts.pickers import run_picker
from pages.parts.probes import charts as probe_charts
from pages.parts.probes.methods import GUESSES, HOW
from pages.parts.session import owner, resources

BADGES: dict[str, tuple[str, str, Literal["red", "green", "gray"]]] = {
    "leak": ("leak", ":material/warning:", "red"),
    "no sign": ("no sign of a leak", ":material/check:", "green"),
    "cannot tell": ("cannot tell", ":material/help:", "gray"),
}
SHOWN = 10


def left_out(run: Run) -> str:
    """Who does not count because another patient has the same name; empty if the stored figures count all."""
    from core.evaluation.probes.figures import PROBE_FIGURES  # imports scipy
    from core.pipeline.full_audit import SUMMARY

    made = owner.workspace().audit(run.id).outcomes().get(f"{SUMMARY}{PROBE_FIGURES.name}")
    if made is None or made.version < PROBE_FIGURES.version_for(run):  # an earlier version counted them
        return ""
    return run_picker.namesakes_caption(run)


def draw(card: Card, figures: pd.DataFrame, run: Run) -> None:
    """One card."""
    name = card.probe.replace(" ", "-")
    with st.container(border=True):
        st.header(card.question, anchor=False)
        answer = guess.first("What do you think?", GUESSES, key=f"{name}-{run.id}", stays=False)
        if answer is None:
            return
        label, icon, colour = BADGES[card.verdict]
        left, right = st.columns(2, gap="large")
        with left:
            st.badge(label, icon=icon, color=colour)
            if answer:
                guess.show_answer(answer, card.conclusion)
            else:
                st.markdown(f"**{card.conclusion}**")
            st.markdown(card.answer)
            st.markdown(f"*Controls:* {card.controls}")
        if (figures["probe"] == card.probe).any():  # nothing to draw if the model wrote no name
            with right:
                chart_style.show(
                    chart_style.kept(
                        "probe", (*_key(run), card.probe), lambda: probe_charts.picture(figures, card.probe)
                    ),
                    key=f"picture-{name}",
                    alt=f"{card.question} {card.conclusion}",
                )
            _answers(card.probe, run)
        own = [card.probe, *([generated.PAIRS, generated.TEXTS] if card.probe == generated.NAMES else [])]
        data_table(figures[figures["probe"].isin(own)], name=f"probe-{name}")
        with st.expander("How is this computed?", icon=":material/function:"):
            st.markdown(HOW[card.probe])
            st.caption(f"Row {card.row} of docs/methods/papers.md; formulas: docs/methods/probes.md.")


def _answers(probe: str, run: Run) -> None:
    """The model's answers, row by row, for the two probes that have readable ones."""
    if probe == fill_in.PROBE:
        with st.expander("The model's answer for one patient", icon=":material/person:"):
            _diseases(run)
    elif probe == generated.NAMES:
        with st.expander("The names it wrote, most suspicious first", icon=":material/person:"):
            names = _names(*_key(run), run)
            st.dataframe(names, hide_index=True, alt="Generated names in the order of the ranking")


def _diseases(run: Run) -> None:
    """The likeliest diseases of each length for one member or held-out patient; those the patient has are marked."""
    rows = _asked(*_key(run), run)
    corpus = owner.workspace().corpus(run.spec.corpus)
    people = corpus.patients.set_index("patient_id")["full_name"]
    ids = rows["patient_id"].unique().tolist()
    chosen = st.selectbox(
        "Patient", ids, format_func=lambda one: f"{people.get(one, one)} ({one})", key=f"probed-{run.id}"
    )
    own = rows[rows["patient_id"] == chosen]
    lengths = sorted(own.loc[own["label"], "bin"].unique(), key=int)
    if not lengths:
        st.caption("No named member has any of this patient's diseases.")
        return
    length = st.segmented_control(
        "Diseases by number of tokens", lengths, default=lengths[0], required=True, key=f"length-{run.id}-{chosen}"
    )
    wording = condition_words(corpus)
    ranked = own[own["bin"] == length].sort_values("score", ascending=False)
    table = pd.DataFrame(
        {
            "rank": range(1, len(ranked) + 1),
            "disease": ranked["target"].map(wording).to_numpy(),
            "patient has it": ranked["label"].to_numpy(),
            "perplexity": np.exp(-ranked["score"]).map(perplexity_text).to_numpy(),
        }
    )
    st.dataframe(table.head(SHOWN), hide_index=True, alt="The likeliest diseases after this patient's name")


def _key(run: Run) -> tuple[str, float]:
    """The cache's key: an audit can be repeated, so it includes when the latest attack ended."""
    outcomes = owner.workspace().audit(run.id).outcomes()
    return str(run.folder), max((one.finished for one in outcomes.values()), default=0.0)


@resources.cached_data(max_entries=4, show_spinner=False)
def _asked(folder: str, finished: float, _run: Run) -> pd.DataFrame:
    rows = owner.workspace().audit(_run.id).table_of(fill_in.PROBE, "probes")
    assert rows is not None  # asked where the probe has figures
    named = rows[(rows["method"] == fill_in.NAME) & (rows["model"] == "target")]
    return named[["patient_id", "split", "target", "bin", "score", "label"]]


@resources.cached_data(max_entries=4, show_spinner=False)
def _names(folder: str, finished: float, _run: Run) -> pd.DataFrame:
    rows = owner.workspace().audit(_run.id).table_of(generated.NAMES, "probes")
    assert rows is not None  # asked where the probe has figures
    rows = rows[rows["probe"] == generated.NAMES].sort_values("score", ascending=False)
    whose = {"member": "a member's", "heldout": "a held-out patient's"}
    return pd.DataFrame(
        {
            "name": rows["target"].str.title(),
            "whose": rows["split"].map(whose).fillna("nobody's"),
            "model − public (nats per token)": rows["score"].round(2),
        }
    ).head(100)


@resources.cached_data(max_entries=64, show_spinner=False)
def _figures(folder: str, finished: float, _run: Run) -> pd.DataFrame:
    from core.evaluation.probes.tables import FIGURES

    return owner.workspace().audit(_run.id).table(FIGURES)


def figures(run: Run) -> pd.DataFrame:
    """The stored figures of a run's probes; empty if no audit has computed them."""
    return _figures(*_key(run), run)
