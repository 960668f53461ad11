"""The way from another page to a patient's card on Patients.

The id of a patient of a generated cohort travels in the link. Of imported notes it stays in the session, since browsers
and proxies keep addresses (`pages.parts.common.query_params`).
"""

from __future__ import annotations

import streamlit as st

from core.runs.run import Run
from pages.parts.common import scroll, shell
from pages.parts.session import gone

_ASKED = "patient_asked"  # in the session, until Patients opens: the run's id and the patient's
ICON = ":material/clinical_notes:"
_LABEL = "This patient's card"


def link(run: Run, patient: str, *, key: str) -> None:
    """A link that opens the patient's card with this run; for imported notes, a button that does the same.

    Args:
        run: The run that the card is about.
        patient: The patient's id.
        key: The key of the button.
    """
    if run.spec.corpus.imported is None:
        shell.link("patients", _LABEL, icon=ICON, query={"run": run.id, "patient": patient})
    elif st.button(_LABEL, icon=ICON, type="tertiary", key=key):
        st.session_state[_ASKED] = (run.id, patient)
        st.switch_page(shell.pages()["patients"], query_params={"run": run.id})


def take(run: Run) -> None:
    """Write the patient of the button into the box of the card, before it is drawn, if Patients shows this run."""
    run_id, patient = st.session_state.pop(_ASKED, (None, ""))
    if run_id == run.id:
        st.session_state["patient"] = patient
        scroll.ask()


@gone.drops
def _drop_gone(still: gone.Still) -> None:
    """Forget the patient once notes of the viewer are gone: the id may be a real one."""
    if still.lost:
        st.session_state.pop(_ASKED, None)
