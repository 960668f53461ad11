"""A form to try any name and disease on the loaded model, in the sentence of Lehman et al. 2021, §6.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from core.common.refusals import out_of_range
from core.models.shipped_bases import ModelNotFound
from core.runs.run import Run
from pages.parts.common.phi_text import literal
from pages.parts.session import models, owner

if TYPE_CHECKING:
    from core.attacks.probes.ask import Reply
    from core.corpus.tables import Corpus

YOUNGEST, OLDEST = 18, 110  # ages that can be asked for
OTHERS = 24  # held-out patients whose names the typed one is compared with


def box(run: Run) -> None:
    """The form and, after it is submitted, the reply."""
    corpus = owner.workspace().corpus(run.spec.corpus).without(run.spec.without)
    example, whole = _example(corpus)
    sexes = {"M": 0, "F": 1}
    cohort = run.spec.corpus.digest()  # in the keys, so that another cohort's member does not stay in the form
    st.header("Try a name and a disease", anchor=False)
    with st.form("try", border=True):
        left, middle, right = st.columns([3, 1, 1])
        name = left.text_input("Name", _known(example["full_name"]), max_chars=80, key=f"try-name-{cohort}")
        title = middle.selectbox(
            "Title", ["Mr.", "Mrs."], sexes.get(example["sex"]), key=f"try-title-{cohort}", placeholder="not recorded"
        )
        years = None if pd.isna(example["age"]) else min(OLDEST, max(YOUNGEST, int(example["age"])))
        # No range here: the browser would keep a number outside it back, and ask with the one before.
        age = right.number_input("Age", value=years, step=1, key=f"try-age-{cohort}", placeholder="not recorded")
        disease = _known(example["disease"])
        condition = st.text_input("Disease", disease, max_chars=120, key=f"try-condition-{cohort}")
        asked = st.form_submit_button("Ask the model", icon=":material/quiz:")
    if asked:
        if title is None or age is None:
            st.error("Choose a title and type an age: the probe's sentence has both.", icon=":material/error:")
        elif wrong := out_of_range("Age", age, YOUNGEST, OLDEST):
            st.error(f"{wrong}.", icon=":material/error:")
        else:
            _reply(run, name, condition, title, int(age))
    elif whole:
        st.caption("The form starts with a member's data. Change the name or the disease to see the effect.")
    else:
        st.caption("The form starts with what is recorded about a member. Fill in the rest.")


def _example(corpus: Corpus) -> tuple[pd.Series, bool]:
    """The member whose data the form starts with, in a column `disease` too, and whether nothing of it is missing.

    A disease is the diagnosis in the record, else the words of the first code that has any: uploaded notes may come
    with codes alone.
    """
    from core.corpus.icd_codes import condition_words

    members = corpus.patients[corpus.patients["split"] == "member"]
    if members["diagnosis"].isna().all():
        words = condition_words(corpus)
        coded = [next((words[code] for code in codes if code in words), None) for codes in members["icd_codes"]]
        members = members.assign(disease=coded)
    else:
        members = members.assign(disease=members["diagnosis"])
    whole = members.dropna(subset=["full_name", "sex", "age", "disease"])
    return (whole if len(whole) else members).iloc[0], len(whole) > 0


def _known(cell: Any) -> str:
    """The words of a record's cell; none if it is empty, as it can be for uploaded notes."""
    return "" if pd.isna(cell) else cell


def _reply(run: Run, name: str, condition: str, title: str, age: int) -> None:
    from core.attacks.probes.ask import ask
    from core.corpus.icd_codes import condition_words

    corpus = owner.workspace().corpus(run.spec.corpus)
    namesakes = [patient_id for patient_id, field in corpus.shared_values if field == "full_name"]
    heldout = corpus.patients[corpus.patients["split"] == "heldout"]
    unread = heldout[~heldout["patient_id"].isin(namesakes)]["full_name"].dropna().head(OTHERS).tolist()
    held = set(corpus.patients["icd_codes"].explode())
    wordings = [words for code, words in condition_words(corpus).items() if code in held]
    try:
        reply = ask(models.model(run), name, condition, title=title, age=age, other_names=unread, wordings=wordings)
    except (ValueError, ModelNotFound) as error:
        st.error(literal(str(error), 600), icon=":material/error:")
        return
    _show_reply(reply)
    typed = " ".join(condition.split())
    if wordings and typed.lower() not in map(str.lower, wordings):
        st.caption(
            f"No patient of this hospital has a coded disease called “{literal(typed, 60)}”, so this cannot show a "
            "link."
        )


def _show_reply(reply: Reply) -> None:
    others = len(reply.others)
    st.markdown(
        f"After this name, a token of this disease is **{reply.times:.2f} times** as likely as after {others} names "
        f"of held-out patients; after {reply.beaten} of the {others} it is less likely. Its place among the "
        f"{reply.compared} diseases with {reply.tokens} token{'' if reply.tokens == 1 else 's'} is **{reply.rank}**."
    )
    with st.container(horizontal=True):
        for label, nats in (
            ("after this name", reply.own),
            ("after other names", float(reply.others.mean())),
            ("without a name", reply.alone),
        ):
            st.metric(f"log p per token, {label}", f"{nats:.2f}".replace("-", "−"), border=True)
    st.markdown("The likeliest diseases of that length after this name:")
    st.dataframe(
        {"rank": list(range(1, len(reply.likeliest) + 1)), "disease": list(reply.likeliest)},
        hide_index=True,
        alt="The likeliest diseases of that length after this name",
    )
    st.caption("One name proves little: the verdicts above are based on all members and have intervals.")
