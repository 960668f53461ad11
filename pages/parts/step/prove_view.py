"""Check it here: checks of a run's own steps, on request."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import streamlit as st

from core.common.formatting import delta_text
from core.evaluation.guarantee.step_audit import chosen_proof, stored_proofs
from core.evaluation.report.commands import prove_command
from core.evaluation.wording import planted_sentence
from core.runs.run import Run
from core.training.checks.check import RARE
from pages.parts.access import viewer
from pages.parts.session import owner
from pages.parts.step import gradients

if TYPE_CHECKING:
    from core.training.checks.check import Check

HOW = """
Each check takes steps with this run's settings, at the public model's weights, by the code that trains. A note is
taken out of a sum, or replaced by random words; a sum with noise is compared with the same sum without it; coins are
counted (up to three million of them). A note's own gradient is computed a second time, without the code that clips. The
noise is that of a public seed, so that it can be subtracted again; noise from a secret is measured separately.

A correct program fails one of them about once in 100,000 runs. Passing proves no ε: the checks found none of the
mistakes that they look for. `python -m core prove RUN` does the same and ends with an error if one fails.

With `--canaries 5000` it also trains the run again with planted gradients, and keeps the result, which is shown here.
It says which ε they prove at 95 % confidence, and the most that they could prove: with 1,000 of them even a run
without any noise proves less than ε = 8. An alarm is weaker evidence of a mistake than a failed check: each of its two
bounds gives a false alarm for at most 1 in 20 correct programs. `--seed` repeats it with other coins.
"""


def prove(run: Run) -> None:
    """A section with a button; once somebody has asked, the checks and what they measured."""
    st.header("Check it here")
    st.markdown(
        f"ε is computed from four facts: each {run.spec.privacy.unit} is sampled by its own coin toss, its gradient is "
        "cut to C, every "
        "step gets noise σC once, and the noise is new each time. Does this program do that? The check takes a few "
        "steps and measures it."
    )
    asked = f"prove-{run.id}"
    label, locked = "Check the steps of this run", viewer.locked("audit")
    if st.button(label, icon=":material/fact_check:", key="step-prove", **locked) and not locked:
        st.session_state[asked] = True
    if st.session_state.get(asked) and (checks := gradients.checks_of(run)) is not None:
        _checked(checks)
    _planted(run)
    with st.expander("How is this checked?"):
        st.markdown(HOW)


def _checked(checks: list[Check]) -> None:
    """Whether all checks passed, and what each measured."""
    wrong = [check for check in checks if not check.passed]
    if wrong:
        st.error(
            f"{len(wrong)} of {len(checks)} checks failed. Do not rely on the ε of this run.", icon=":material/error:"
        )
    else:
        st.success(f"All {len(checks)} checks passed.", icon=":material/check:")
    st.html(_table(checks))


def _planted(run: Run) -> None:
    """What was stored of this run's planted gradients: how much of its ε an attacker who sees every step proves."""
    proof = chosen_proof(stored_proofs(owner.workspace().audit(run.id)))
    if proof is None:
        st.markdown(
            "How large an ε can an attacker who sees every step prove? To measure it, train a second time: "
            f"`{prove_command(run.id)}`."
        )
    elif proof["alarm"]:
        st.error(planted_sentence(proof), icon=":material/warning:")
    else:
        st.markdown(planted_sentence(proof))


def _table(checks: list[Check]) -> str:
    """One row a check, what failed first, as HTML."""
    rows = [
        ("✓" if check.passed else "✗", check.claim, check.measure, _number(check.value), _range(check))
        for check in sorted(checks, key=lambda check: check.passed)
    ]
    head = "".join(f"<th>{name}</th>" for name in ("", "check", "what is measured", "measured", "expected"))
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scrolled"><table class="tally checks"><tr>{head}</tr>{body}</table></div>'


def _number(value: float) -> str:
    """A measured value with as many digits as its range needs."""
    return "below 0.0001" if 0 < value < 1e-4 else f"{value:.4g}".replace("-", "−")


def _range(check: Check) -> str:
    if check.low == check.high:
        return _number(check.low)
    if check.low == RARE:
        return f"above {delta_text(RARE)}"
    if check.low == 0:
        return f"at most {check.high:.3g}"
    return f"{_number(check.low)} to {_number(check.high)}"
