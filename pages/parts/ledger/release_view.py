"""Recording a release on the Ledger page: choose a model, see its effect on the totals, confirm, and then record it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from core.common.formatting import setting_text
from core.runs.integrity.disk import error_sentence
from core.runs.listing import OfRuns
from core.runs.run import Run, RunBroken
from core.spec import CorpusSpec
from pages.parts.access import viewer
from pages.parts.common import shell
from pages.parts.ledger import choice_form
from pages.parts.pickers import run_picker
from pages.parts.session import instructor, owner, resources

if TYPE_CHECKING:
    from core.runs.ledger.entries import Ledger, Release
    from core.runs.ledger.release_effect import Effect

OF_A_CLASS = (
    "In a class, only the instructor can record a release, because it cannot be undone. Instructors enter their key on "
    "the Train page."
)
DRAFT = "release_draft"  # in the session: the entry that is shown, as JSON
MOVED = "release_moved"  # in the session: what changed between showing and confirming, a sentence
ENTRY = "The ledger has a new entry since these totals were shown."
TRAINED = "The run was trained again since these totals were shown. Its model is another one now, a separate release."


def show(ledger: Ledger, runs: Sequence[Run], entered: set[str], *, delta: float, budget: float) -> None:
    """The form, or the entry chosen in it with its effect on the totals.

    Args:
        ledger: The cohort's ledger.
        runs: The runs that can be released.
        entered: The ids of the runs that are in the ledger.
        delta: The δ of the totals.
        budget: The ε that must not be exceeded.
    """
    st.header("Release a model")
    st.markdown(
        "Record here that a model was, or will be, given to someone. **This cannot be undone**: a model that was "
        "released cannot be taken back. The ledger only grows."
    )
    draft = _draft(ledger, runs, entered)
    if draft is not None:
        _confirm(ledger, draft, delta, budget)
        return
    left = [run for run in runs if run.id not in entered]
    if not left:
        st.markdown("All runs of this cohort are in the ledger." if runs else "There is no run of this cohort here.")
        return
    offered = _releasable(left)
    if len(offered) < len(left):
        st.caption(
            f"Private runs that must not be released: {len(left) - len(offered):,}. Their noise came from a public "
            "seed, so they promise no ε. If one was released, these totals leave it out: take them as infinite, as "
            "for a model without privacy. To release a private model, train it with *Secret noise*."
        )
        shell.link_to_train()
    if not offered:
        return
    names = run_picker.labels(runs)  # of all: a control without noise is named after its private runs
    with st.form("release", enter_to_submit=False):
        chosen = st.selectbox(
            "Model", [run.id for run in run_picker.in_order(offered)], format_func=names.__getitem__, key="release_run"
        )
        reason = st.text_input("Who gets it, and what for?", key="release_reason", max_chars=2_000)
        choice = choice_form.show()
        sent = st.form_submit_button(
            "Show the effect on the totals", icon=":material/calculate:", **viewer.locked("release")
        )
    if sent and _drafted(ledger, next(run for run in offered if run.id == chosen), reason, choice):
        st.rerun()


def _refused(run: Run) -> bool:
    """Whether the ledger refuses the run: anyone can generate its noise again."""
    try:
        return run.noise_source == "public seed"
    except RunBroken:  # the ledger says what is wrong with it
        return False


_releasable = OfRuns(lambda runs: [run for run in runs if not _refused(run)])  # a file for each run is read


def _drafted(ledger: Ledger, run: Run, reason: str, choice: choice_form.Typed) -> bool:
    """Keep the entry in the session, to be shown; an error if the ledger refuses it."""
    try:
        st.session_state[DRAFT] = ledger.draft_run(run, reason, choice.made()).model_dump_json()
    except (ValueError, OSError) as error:
        st.error(error_sentence(error), icon=":material/error:")
        return False
    return True


def _draft(ledger: Ledger, runs: Sequence[Run], entered: set[str]) -> Release | None:
    """The entry to show, drafted again if the ledger or the model has changed since; None if there is none."""
    from core.runs.ledger.entries import Release, trained_again

    if DRAFT not in st.session_state:
        return None
    draft = Release.model_validate_json(st.session_state[DRAFT])
    run = next((run for run in runs if run.id == draft.name and run.id not in entered), None)
    if draft.corpus != ledger.corpus or run is None:
        del st.session_state[DRAFT]
        return None
    fresh = ledger.draft_run(run, draft.reason, draft.choice)
    changed = [TRAINED] if trained_again(run, draft) else []
    if (fresh.number, fresh.previous) != (draft.number, draft.previous):
        changed.append(ENTRY)
    if not changed:
        return draft
    st.session_state[DRAFT], st.session_state[MOVED] = fresh.model_dump_json(), " ".join(changed)
    return fresh


@resources.cached_data(max_entries=50, show_spinner="Computing the new totals …")
def _effect(root: str, entries: tuple[str, ...], draft: str, corpus: CorpusSpec, delta: float) -> Effect:
    """The effect of the entry `draft` on the totals of `entries`, all as JSON; `root` is the data folder."""
    from core.runs.ledger.entries import Release
    from core.runs.ledger.release_effect import effect

    releases = [Release.model_validate_json(entry) for entry in entries]
    cohort = owner.workspace().corpus(corpus, store=False)
    return effect(releases, Release.model_validate_json(draft), cohort, delta)


def _confirm(ledger: Ledger, draft: Release, delta: float, budget: float) -> None:
    """The effect of the entry, and the button that records exactly this entry."""
    from core.runs.ledger.entries import LedgerChanged
    from core.runs.ledger.release_effect import total_text

    entries = tuple(release.model_dump_json() for release in ledger.releases())
    found = _effect(str(owner.workspace().root), entries, st.session_state[DRAFT], ledger.corpus, delta)
    if changed := st.session_state.pop(MOVED, ""):
        st.warning(f"{changed} Nothing was recorded. Check the totals again.", icon=":material/update:")
    with st.container(border=True):
        st.markdown(f"**Entry {draft.number}: model `{draft.name}`**")
        st.text(f"Reason: {draft.reason}")
        if draft.choice is not None:
            st.text(f"Choice: {draft.choice.text()}")
        st.markdown(
            "\n".join(
                f"- For {one.whom}: {total_text(one.before)} → **{total_text(one.after)}**" for one in found.changes
            )
        )
        for reason in found.reasons:
            st.warning(reason, icon=":material/warning:")
        over = found.over(budget)
        if over:
            st.warning(
                f"With this release, the total for one {' and for one '.join(over)} exceeds the budget of "
                f"{setting_text(budget)}.",
                icon=":material/warning:",
            )
        # the key names what is shown: a click on another draft, or on totals at another δ, does not confirm this one
        shown = hashlib.sha256(f"{st.session_state[DRAFT]}{entries}{delta}{budget}".encode()).hexdigest()[:12]
        with st.form(f"confirm-{shown}", border=False, enter_to_submit=False):
            holds = draft.choice is None or choice_form.confirmed(f"release_choice_holds_{shown}")
            sure = st.checkbox(
                "I agree to these totals, and I know that this cannot be undone.", key=f"release_sure_{shown}"
            )
            with st.container(horizontal=True):
                locked = viewer.locked("release") if instructor.leads() else {"disabled": True, "help": OF_A_CLASS}
                agreed = st.form_submit_button("Record the release", icon=":material/send:", type="primary", **locked)
                back = st.form_submit_button("Back", icon=":material/arrow_back:")
    if back:
        del st.session_state[DRAFT]
        st.session_state["release_run"], st.session_state["release_reason"] = draft.name, draft.reason
        choice_form.restore(draft.choice)
        st.rerun()
    if not agreed:
        return
    if not sure:
        st.error("Tick the box first: a release cannot be undone.", icon=":material/error:")
        return
    if not holds:
        st.error("Tick the box about the choice first. If it is not true, go back.", icon=":material/error:")
        return
    try:
        viewer.require("release")
        if not instructor.leads():
            raise ValueError(OF_A_CLASS)
        release = ledger.enter(draft)
    except LedgerChanged:
        st.rerun()  # the entry is drafted again and has to be confirmed again
    except (ValueError, OSError) as error:
        st.error(error_sentence(error), icon=":material/error:")
        return
    del st.session_state[DRAFT]
    st.toast(f"Entry {release.number}: the release of {release.name} is recorded.", icon=":material/check:")
    st.rerun()
