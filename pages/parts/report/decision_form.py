"""The form of a board's decision. Its answers stay in this browser session and go into the report's files only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from core.common.refusals import out_of_range

if TYPE_CHECKING:
    from pydantic import ValidationError

    from core.evaluation.report.decision import Decision

KEPT = "report_decision"  # in the session: the answers, as JSON
QUESTIONS = {
    "recipient": ("Who gets the model, and what for?", ""),
    "knowledge": ("What does an attacker know and see?", "For example: some patients’ names; every text it writes."),
    "cost": ("How much may an attacker spend?", "For example: 10,000 queries, a week’s work, a criminal offence."),
    "accepted": ("Which limits do you accept, in words?", "For example: ε ≤ 2 per patient; no full name is written."),
    "owner": ("Who bears the risk?", ""),
}
PERSON = {"name": "Approver", "role": "Role"}
APPROVERS = 3  # lines of the form
COLUMNS = 3  # of boxes for limits


def given() -> Decision:
    """The answers of this session; empty ones to begin with."""
    from core.evaluation.report.decision import Decision

    kept = st.session_state.get(KEPT)
    return Decision() if kept is None else Decision.model_validate_json(kept)


def _limits(now: Mapping[str, float]) -> tuple[dict[str, float], str]:
    """A box for every figure that can be limited.

    Returns:
        The filled ones by key, shares between 0 and 1; and what is wrong with the first that is out of its range. The
        boxes have no range themselves: the browser would keep such a number back, and “Keep” would say nothing.
    """
    from core.evaluation import registry

    found, wrong, columns = {}, "", st.columns(COLUMNS)
    for number, (name, limit) in enumerate(registry.limits().items()):
        whole = 100.0 if registry.number_format(name).share else 1.0
        least, most = (whole * end for end in registry.limit_range(name))
        label = f"{limit.label[0].upper()}{limit.label[1:]}, at most{' (%)' if whole > 1 else ''}"
        value = columns[number % COLUMNS].number_input(
            label,
            None,
            None,
            round(whole * now[name], 10) if name in now else None,
            step=whole / 100,
            format="%.12g",
            help=f"{limit.explanation}.",
            key=f"decision_limit_{name}",
        )
        if value is not None:
            found[name] = round(value / whole, 12)
            wrong = wrong or out_of_range(label, value, least, most)
    return found, f"{wrong}." if wrong else ""


def _refusal(error: ValidationError, filled: Sequence[int]) -> str:
    """What is wrong with the first answer that cannot be used; `filled` are the lines of the approvers."""
    from core.evaluation.report.decision import MOST_LETTERS, problem

    first = error.errors()[0]
    if first["type"] not in ("string_too_long", "too_long"):  # of an answer: the form has few approvers
        return f"{problem(error)}."
    where = first["loc"]
    if where[0] == "approvers":
        question = f"{PERSON[str(where[2])]} {filled[int(where[1])] + 1}"
    else:
        question = QUESTIONS[str(where[0])][0]
    return f"“{question}” takes at most {MOST_LETTERS} characters, not {len(first['input']):,}."


def show() -> None:
    """The form; “Keep” puts the answers into the report."""
    from pydantic import ValidationError

    from core.evaluation.report.decision import ACCESS, Access, Decision

    now = given()
    st.caption("Your answers are printed in the report. No other session sees them, and nothing is stored on disk.")
    with st.form("decision", enter_to_submit=False, border=False):
        answers: dict[str, object] = {}
        for name, (label, example) in QUESTIONS.items():
            answers[name] = st.text_area(
                label,
                getattr(now, name),
                height=68,  # without a limit: the browser would drop a longer paste whole, and `_refusal` says so
                help=example or None,
                key=f"decision_{name}",
            )
        st.caption(
            "Limits on figures of this model, which the report compares with what was measured. A limit is met if the "
            "worse end of the 95\u00a0% interval meets it. Leave a box empty for no limit."
        )
        answers["limits"], wrong = _limits(now.limits)
        ways: list[Access] = list(ACCESS)
        answers["access"] = st.selectbox(
            "How do they get it?", ways, ways.index(now.access), format_func=ACCESS.__getitem__, key="decision_access"
        )
        left, right = st.columns(2)
        answers["review"] = left.date_input("Review on", now.review, key="decision_review")
        answers["expires"] = right.date_input("Expires on", now.expires, key="decision_expires")
        people = []
        for number in range(APPROVERS):
            person = now.approvers[number] if number < len(now.approvers) else None
            people.append(
                {
                    part: side.text_input(
                        f"{title} {number + 1}", getattr(person, part, ""), key=f"decision_{part}_{number}"
                    )
                    for side, (part, title) in zip((left, right), PERSON.items(), strict=True)
                }
            )
        sent = st.form_submit_button("Add to the report", icon=":material/edit_document:")
    if not sent:
        return
    if wrong:
        st.error(wrong, icon=":material/error:")
        return
    filled = [number for number, one in enumerate(people) if any(one.values())]
    try:
        made = Decision.model_validate(answers | {"approvers": [people[number] for number in filled]})
    except ValidationError as error:
        st.error(_refusal(error, filled), icon=":material/error:")
        return
    st.session_state[KEPT] = made.model_dump_json()
    st.rerun()
