"""Promise and measurement side by side: what the slider's ε allows any attacker, and the best attack's result."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import pandas as pd
import streamlit as st

from core.common.formatting import REPRODUCIBLE, setting_text
from core.evaluation.sweep.sweeps import Sweep
from core.evaluation.wording import odds_sentence, percent_up, set_percent
from core.runs.run import Run
from core.spec import Unit
from pages.parts.common.public_noise import WHY, public_noise
from pages.parts.session import owner, resources
from pages.parts.tradeoff.models import trained_at

WORST = " That is the worst case of any training with this ε."
UNTRAINED = "no model was trained at this ε; move the slider to a marker"
COUNTING = "core.training.accounting.mechanism"  # takes seconds to load


def side_by_side(sweep: Sweep, epsilon: float) -> Callable[[], None]:
    """Show the promise at ε beside what was measured there.

    Returns:
        A function to call after the charts are drawn: the accountants take seconds to load, and no chart should wait
        for them. Once they are loaded, it does nothing.
    """
    privacy, runs = sweep.privacy, trained_at(sweep, epsilon)
    promised, measured = st.columns(2, gap="medium")
    with promised.container(border=True, height="stretch"):
        none, public = math.isinf(epsilon), not math.isinf(epsilon) and _public_seed(sweep, runs)
        what = (
            "Without privacy: no promise" if none else f"At ε = {setting_text(epsilon)} per {privacy.unit}: the promise"
        )
        st.markdown(f"**{what}{' with secret noise' if public else ''}, against any attacker**")
        st.markdown(odds_sentence(epsilon, privacy.delta, privacy.unit) + ("" if none else WORST))
        if public:
            st.caption(f"These runs are {REPRODUCIBLE}.", help=WHY)
        later = st.empty()
    with measured.container(border=True, height="stretch"):
        st.markdown("**The measurement: what the best attack here achieved**")
        st.markdown(_attacked(runs, privacy.unit) or f"Nothing was measured: {UNTRAINED}.")
        st.caption(f"Someone may find a better attack. {_limit(none=none, public=public)}")

    def count() -> None:
        if not none:
            later.markdown(_for_this_training(str(owner.workspace().root), runs[0].id) if runs else "")

    if COUNTING not in sys.modules:
        return count
    count()
    return lambda: None


def _limit(*, none: bool, public: bool) -> str:
    """What holds for attacks that have not been tried."""
    if none:
        return "Nothing limits it."
    if public:
        return "With secret noise the promise would hold against it, too."
    return "The promise holds against it, too."


def _public_seed(sweep: Sweep, runs: list[Run]) -> bool:
    """Whether any of these runs took its noise from a public seed; without runs, whether the sweep's next one would."""
    if runs:
        return public_noise(runs)
    return sweep.corpus.imported is None and sweep.privacy.noise_source is None


def _attacked(runs: list[Run], unit: Unit) -> str | None:
    """The sentence about the best attack on these runs; computed again after another of their audits has ended."""
    workspace = owner.workspace()
    ended = tuple(one.finished for run in runs for one in workspace.audit(run.id).outcomes().values())
    return _best(str(workspace.root), tuple(run.id for run in runs), ended, unit)


@resources.cached_data(max_entries=100, show_spinner="Reading what the attacks found …")
def _best(root: str, run_ids: tuple[str, ...], ended: tuple[float, ...], unit: Unit) -> str | None:
    from core.evaluation.membership.best_attack import best_attack, best_attack_sentence
    from core.evaluation.membership.of_run import decisions_on

    workspace, made = owner.workspace(), []
    for run_id in run_ids:
        run = workspace.run(run_id)
        made.append(decisions_on(run, workspace.audit(run_id), unit))
    found = best_attack(made)
    return None if found is None else best_attack_sentence(found, unit)


@resources.cached_data(max_entries=100, show_spinner="Computing odds …")
def _for_this_training(root: str, run_id: str) -> str:
    """What the noise of one private run allows an attacker."""
    from core.evaluation.guarantee.odds import mechanism_sentence

    mechanism = owner.workspace().run(run_id).privacy
    assert mechanism is not None  # called for private runs only
    return mechanism_sentence([mechanism], mechanism.unit)


@resources.cached_data(max_entries=100, show_spinner="Computing odds …")
def _counted(root: str, run_id: str) -> tuple[str, pd.DataFrame]:
    """The promise of a private run for the patient with most notes (empty for unit patient), and the table of odds."""
    from core.corpus.tables import notes_by_patient
    from core.evaluation.guarantee.odds import group_comparison, group_sentence, odds_table

    workspace = owner.workspace()
    run = workspace.run(run_id)
    mechanism, told = run.privacy, ""
    assert mechanism is not None  # called for private runs only
    if mechanism.unit == "note":
        corpus = workspace.corpus(run.spec.corpus, store=False).without(run.spec.without)
        most = int(notes_by_patient(corpus.training_notes(run.note_cap)).max())
        told = group_sentence(mechanism, most) + (f"\n\n{group_comparison(mechanism, most)}" if most > 1 else "")
    return told, odds_table(mechanism.epsilon(), mechanism.delta, mechanism)


def fold(sweep: Sweep, epsilon: float) -> None:
    """More about the promise, computed only when the expander is open."""
    label = f"More odds at ε = {setting_text(epsilon)}: a patient with many notes, how far a belief can shift"
    with st.expander(label, key="odds-fold", on_change="rerun") as box:
        if not box.open:
            return
        if math.isinf(epsilon):
            st.markdown("Without privacy nothing is promised: an attacker may always be right.")
            return
        runs = trained_at(sweep, epsilon)
        if not runs:
            st.markdown(f"Nothing to compute: {UNTRAINED}, or see “What if?” above.")
            return
        sentence, table = _counted(str(owner.workspace().root), runs[0].id)
        st.markdown(sentence)
        shown = table.assign(
            **{
                "at most": table["at most"].map(percent_up),
                "by exact accounting": table["by exact accounting"].map(
                    lambda share: "–" if math.isnan(share) else percent_up(share)
                ),
                "without the model": table["without the model"].map(set_percent),
            }
        )
        st.dataframe(shown, hide_index=True, alt="What this ε allows at most")
        st.caption(
            "“At most” holds for any training with this (ε, δ), so it allows more than the exact accounting of this "
            "training does. Beliefs can exceed it in rare outcomes, which δ allows."
        )
