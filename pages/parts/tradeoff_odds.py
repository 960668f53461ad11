"""What ε at the slider means as odds, counted from the training itself where there is one."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from core.evaluation.comparable import Family
from core.evaluation.wording import percent, percent_up
from pages.parts import shell
from pages.parts.tradeoff_charts import epsilon_label


@st.cache_data(max_entries=100, show_spinner="Counting the odds …")
def _counted(root: str, run_id: str) -> tuple[list[str], pd.DataFrame]:
    """Sentences and table for one private run of the data folder `root`."""
    from core.evaluation.odds import group_sentence, mechanism_sentence, odds_table

    workspace = shell.workspace()
    run = workspace.run(run_id)
    mechanism = run.privacy
    spent = mechanism.epsilon()
    sentences = [mechanism_sentence([mechanism], mechanism.unit)]
    if mechanism.unit == "note":
        notes = workspace.corpus(run.spec.corpus, store=False).training_notes(run.spec.training.max_notes_per_patient)
        sentences.append(group_sentence(spent, mechanism.delta, int(notes.groupby("patient_id").size().max())))
    return sentences, odds_table(spent, mechanism.delta)


def fold(family: Family, epsilon: float) -> None:
    """A fold that counts only once it is opened: the accountants take seconds to load."""
    label = f"ε = {epsilon_label(epsilon)} in odds"
    with st.expander(label, key="odds-fold", on_change="rerun") as box:
        if not box.open:
            return
        if math.isinf(epsilon):
            st.markdown("Without privacy nothing is promised: any attacker may always be right.")
            return
        workspace = shell.workspace()
        runs = (workspace.run(run_id) for run_id in family.run_ids)
        at = next((run for run in runs if run.spec.privacy.target_epsilon == epsilon), None)
        if at is None:
            st.markdown("No run was trained at this ε: move the slider to a marker, or see “What if?” above.")
            return
        sentences, table = _counted(str(workspace.root), at.id)
        st.markdown("\n".join(f"- {sentence}" for sentence in sentences))
        shown = table.assign(
            **{
                "at most": table["at most"].map(percent_up),
                "without the model": table["without the model"].map(percent),
            }
        )
        st.dataframe(shown, hide_index=True, alt="What this ε allows at most")
        st.caption(
            "The sentence counts the very noise and sampling of this training; the table holds for any training with "
            "this (ε, δ), so it allows more."
        )
