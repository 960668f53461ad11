"""One claim: the paper's figure, ours, the verdict, and how it was made; and the table of all claims."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd
import streamlit as st

from core.evaluation.wording import unbroken
from core.findings.from_weights.tables import MEASUREMENTS
from core.findings.judging import NOT_RUN, Finding
from core.findings.other_text import agreement, asked_of_both
from core.findings.stored_runs import with_shipped
from core.findings.wording import bases_text, figure_text, range_text, rule_text, together
from pages.parts.common import chart_style, guess, shell
from pages.parts.common.data_table import data_table
from pages.parts.findings import charts, veil
from pages.parts.pickers import run_picker
from pages.parts.session import classroom, owner

ANSWERS = ("It holds", "It does not hold", "The data cannot tell")
_VERDICTS = dict(zip(("holds", "does not hold", "cannot tell"), ANSWERS, strict=True))


def guess_key(claim: str) -> str:
    """The name under which the guess about a claim is kept."""
    return f"finding-{claim}"


def hidden(found: Sequence[Finding]) -> set[str]:
    """The ids of the claims whose verdict waits for a guess, or in a class for the presenter."""
    judged = [one.claim.id for one in found if one.verdict != NOT_RUN]
    verdicts = classroom.verdicts()
    if verdicts == "hidden":
        return set(judged)
    if verdicts == "shown" or not guess.asked():
        return set()
    return {name for name in judged if guess.given(guess_key(name)) is None}


def show(one: Finding) -> None:
    """The claim, and after a guess where one is asked for its verdict and picture."""
    claim = one.claim
    st.header(f"{claim.id}: {claim.title}", anchor=False)
    st.markdown(unbroken(f"{claim.says} **{claim.paper}**: {claim.figure} ({claim.place})."))
    if one.verdict == NOT_RUN:
        st.markdown("**Not run yet.** Not all of its runs are here. The command below trains and attacks them.")
    else:
        verdicts = classroom.verdicts()
        veiled = verdicts == "hidden"
        if veiled and guess.given(guess_key(claim.id)) == "":
            guess.forget(guess_key(claim.id))  # skipped before the veil: it can still be answered
        answer = guess.first(
            "Does it hold here, on small models?",
            ANSWERS,
            key=guess_key(claim.id),
            stays=False,
            ask=None if verdicts is None else veiled,
            skips=not veiled,
        )
        if answer is None:
            return
        if veiled:
            st.markdown(f"You guessed “{answer}”.")
            st.caption(veil.WAITING)
            return
        _verdict(one, answer)
    _details(one)


def _verdict(one: Finding, answer: str) -> None:
    assert one.evidence is not None  # only claims that were run get here
    guessed = f"You guessed “{answer}”. " if answer else ""
    st.markdown(unbroken(f"{guessed}**{_VERDICTS[str(one.verdict)]}.** {one.why or _figures_in_short(one)}"))
    st.markdown(unbroken(f"Measured: {one.claim.quantity}."))
    if any(figure.has_interval for figure in one.evidence.figures):
        chart_style.show(
            charts.figures(one),
            key=f"finding-{one.claim.id}",
            alt=f"{one.claim.quantity}: {len(one.evidence.figures)} figures with their intervals",
        )
    frame = pd.DataFrame(
        [(figure.label, figure_text(figure, one.claim.unit)) for figure in one.evidence.figures],
        columns=["", one.claim.unit],
    )
    data_table(frame, name=f"finding-{one.claim.id}")


def _figures_in_short(one: Finding) -> str:
    """For a verdict that needs no explanation: its figures, as the table of all claims has them."""
    assert one.evidence is not None  # only claims that were run get here
    of_points = " (in points)" if one.claim.unit == "points" else ""
    return f"Here{of_points}: {range_text(one.evidence.figures, one.claim.unit)}."


def _details(one: Finding) -> None:
    claim = one.claim
    with st.expander("Rule, runs and command", expanded=one.verdict == NOT_RUN):
        intervals = together(one.evidence.figures) if one.evidence else ""
        st.markdown(
            f"- **Rule.** {rule_text(one)} {intervals}\n"
            f"- **Measured.** {claim.quantity}.\n"
            f"- **Run at.** {claim.sizes}. {bases_text(claim)}\n"
            f"- **Differs from the paper.** {claim.differs}"
        )
        _runs(one)
        st.code(f"python -m core findings {claim.id}{_options(one)}", language="sh")
        shell.link(
            claim.page, f"{shell.title_of(claim.page)}, the page with such figures", icon=":material/open_in_new:"
        )


def _runs(one: Finding) -> None:
    needed = list(dict.fromkeys(need.spec.run_id for need in one.claim.needs))
    if not needed:
        st.markdown("No run is needed: the figures follow from settings.")
        return
    stored = with_shipped(owner.workspace())
    known = {run.id: run_picker.label(run) for run in stored.runs() if run.id in needed}
    rows = [(known.get(name, "not here yet"), name) for name in needed]
    st.dataframe(pd.DataFrame(rows, columns=["Model", "Run"]), hide_index=True, alt="The runs that this claim needs")


def everything(found: Sequence[Finding], veiled: Collection[str]) -> None:
    """All claims as a table, folded away."""
    rows = []
    for one in found:
        shown = one.claim.id not in veiled
        here = range_text(one.evidence.figures, one.claim.unit) if one.evidence and shown else ""
        verdict, why = (one.verdict, one.why) if shown else (charts.HIDDEN, "")
        rows.append((one.claim.id, one.claim.paper, one.claim.title, one.claim.figure, here, verdict, why))
    columns = ["Id", "Paper", "Claim", "The paper's figure", "Here", "Verdict", "Why"]
    data_table(pd.DataFrame(rows, columns=columns), name="findings", label="All claims as a table")


def on_other_text(found: Sequence[Finding], veiled: Collection[str]) -> None:
    """What becomes of verdicts on text that was not generated here, folded away."""
    pairs = [pair for pair in asked_of_both(found) if not any(one.claim.id in veiled for one in pair)]
    if not pairs:
        return
    with st.expander("Which claims survive on text that was not generated here?"):
        st.markdown(agreement(pairs))
        rows = [
            (there.claim.id, there.claim.title, first.claim.id, first.verdict, there.verdict) for first, there in pairs
        ]
        columns = ["Id", "Claim", "First asked as", "On synthetic notes", "On public text"]
        st.dataframe(pd.DataFrame(rows, columns=columns), hide_index=True, alt="Verdicts on both kinds of text")


def _options(one: Finding) -> str:
    """What the command needs to judge the claim: nothing where it is judged already."""
    if one.verdict != NOT_RUN:
        return ""
    if any(need.spec.corpus.is_public_text for need in one.claim.needs):
        return " --run --public-notes mtsamples.txt"
    if any(MEASUREMENTS[name].of_abstracts for need in one.claim.needs for name in need.measured):
        return " --run --labelled bio-ner"
    return " --run"
