"""A box to try a name and a condition of one's own on the loaded model (row L2's sentence)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from core.runs.run import Run
from pages.parts.session import owner, resources

if TYPE_CHECKING:
    from core.attacks.probes.ask import Reply
    from core.models.build import LanguageModel

OTHERS = 24  # held-out patients whose names stand beside the typed one


@resources.cached_object(max_entries=3, show_spinner=False)
def _model(folder: str, finished: float | None, _run: Run) -> LanguageModel:
    return _run.model()


def box(run: Run) -> None:
    """The form and, once it was sent, the reply."""
    from core.attacks.probes.identities import UNKNOWN_AGE

    corpus = owner.workspace().corpus(run.spec.corpus)
    members = corpus.patients[corpus.patients["split"] == "member"]
    example = members.iloc[0]
    cohort = run.spec.corpus.digest()  # in the keys: another cohort's member must not stay filled in
    st.subheader("Try a name and a disease", anchor=False)
    with st.form("try", border=True):
        left, middle, right = st.columns([3, 1, 1])
        name = left.text_input("Name", _known(example["full_name"], ""), max_chars=80, key=f"try-name-{cohort}")
        title = middle.selectbox("Title", ["Mr.", "Mrs."], int(example["sex"] != "M"), key=f"try-title-{cohort}")
        years = min(110, max(18, int(_known(example["age"], UNKNOWN_AGE))))
        age = right.number_input("Age", 18, 110, years, key=f"try-age-{cohort}")
        disease = _known(example["diagnosis"], "")
        condition = st.text_input("Disease", disease, max_chars=120, key=f"try-condition-{cohort}")
        asked = st.form_submit_button("Ask the model", icon=":material/quiz:")
    if asked:
        _reply(run, name, condition, title, int(age))
    else:
        st.caption("Filled in: what is known of a member. Change the name or the disease, and see what changes.")


def _known(value: object, otherwise: object) -> Any:
    """A cell of a record; records of notes that were brought have holes."""
    return otherwise if pd.isna(value) else value


def _reply(run: Run, name: str, condition: str, title: str, age: int) -> None:
    from core.attacks.probes.ask import ask
    from core.corpus.icd_codes import condition_words

    corpus = owner.workspace().corpus(run.spec.corpus)
    unread = corpus.patients[corpus.patients["split"] == "heldout"]["full_name"].dropna().head(OTHERS).tolist()
    held = set(corpus.patients["icd_codes"].explode())
    wordings = [words for code, words in condition_words(corpus).items() if code in held]
    try:
        reply = ask(
            _model(str(run.folder), run.status.finished, run),
            name,
            condition,
            title=title,
            age=age,
            other_names=unread,
            wordings=wordings,
        )
    except ValueError as error:
        st.error(str(error), icon=":material/error:")
        return
    _told(reply)


def _told(reply: Reply) -> None:
    others = len(reply.others)
    st.markdown(
        f"After this name a token of this disease is **{reply.times:.2f} times** as likely as after {others} names the "
        f"model never read; {reply.beaten} of the {others} make it less likely. It ranks **{reply.rank} of "
        f"{reply.compared}** diseases of {reply.tokens} token{'' if reply.tokens == 1 else 's'}."
    )
    with st.container(horizontal=True):
        for label, nats in (
            ("after this name", reply.own),
            ("after other names", float(reply.others.mean())),
            ("without a name", reply.alone),
        ):
            st.metric(f"log p a token, {label}", f"{nats:.2f}".replace("-", "−"), border=True)
    st.markdown("Likeliest of that length after this name:")
    st.dataframe(
        {"rank": list(range(1, len(reply.likeliest) + 1)), "disease": list(reply.likeliest)},
        hide_index=True,
        alt="The likeliest diseases of as many tokens after the typed name",
    )
    st.caption("One name is an anecdote: the verdicts above rest on all members and have intervals.")
