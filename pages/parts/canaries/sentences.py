"""The sentences of the Canaries page: what was computed and how, highlighted notes, what a bound means."""

from __future__ import annotations

import html
import math

import pandas as pd
import streamlit as st

from core.common.formatting import promised_text, proved_text
from core.evaluation import wording
from core.evaluation.guarantee.audit_guarantee import ONE_RUN, by_curve, further, headline, headline_bound
from core.evaluation.guarantee.step_audit import chosen_proof
from core.evaluation.memorisation.canaries import whole_patients
from core.evaluation.report.commands import prove_command
from pages.parts.canaries.methods import HOW
from pages.parts.common.phi_text import visible

FEW = 10  # canaries: with fewer, Student's t over them is a rough interval


def how(view: str) -> None:
    """The fold that says how a chart is computed."""
    with st.expander("How is this computed?"):
        st.markdown(HOW[view])


def note_html(text: str, prefix_end: int, matched_end: int) -> str:
    """A note as escaped HTML: what the model was shown, what it repeated word for word (marked), and the rest."""

    def part(start: int, end: int | None = None) -> str:
        return html.escape(visible(text[start:end]))

    repeated = part(prefix_end, matched_end)
    mark = f'<mark class="phi phi-leak">{repeated}<b>word for word</b></mark>' if repeated else ""
    return f'<div class="phi-text"><span class="phi-prompt">{part(0, prefix_end)}</span>{mark}{part(matched_end)}</div>'


def exposure_answer(figures: pd.DataFrame) -> str:
    """From how many copies on mean exposure exceeds its control (the intervals do not overlap), and what is missing.

    Args:
        figures: The table of `exposure_by_copies` of one run.
    """
    alone = figures[(figures["arm"] == "run") & figures["low"].isna()].sort_values("insertions")
    left_out = [
        f" {_copies(int(number))}: a single canary, which has no interval and is not compared."
        for number in alone["insertions"]
    ]
    return _compared(figures) + "".join(left_out)


def _compared(figures: pd.DataFrame) -> str:
    control = figures[figures["arm"] == "heldout"].dropna(subset=["high"])
    planted = figures[figures["arm"] == "run"].dropna(subset=["low"]).sort_values("insertions")
    if control.empty or planted.empty:
        return "Without an interval on either side, planted and left-out canaries cannot be compared."
    above = planted["low"] > float(control["high"].max())
    unread = control.iloc[0]
    if not above.iloc[-1]:
        row = planted.iloc[-1]
        few = row["exposure"] > unread["high"]  # the mean is above the control, its interval reaches down to it
        return (
            f"With {_copies(int(row['insertions']))}, the mean is {_bits(row)} over {_number(row)} canaries; "
            f"the {int(unread['canaries'])} left-out ones have {_bits(unread)}: "
            f"{'too few canaries to tell' if few else 'no difference is shown'}."
        )
    row = planted[above[::-1].cummin()[::-1]].iloc[0]
    number = int(row["insertions"])
    return (
        f"{_copies(number)} {'is' if number == 1 else 'are'} enough: mean exposure {_bits(row)} over "
        f"{_number(row)} canaries, against {_bits(unread)} for {int(unread['canaries'])} that were left out."
    )


def _copies(number: int) -> str:
    return f"{number} {'copy' if number == 1 else 'copies'}"


def _number(row: pd.Series) -> str:
    """`only 3`, `22`: an interval over a few values that happen to be alike is too narrow."""
    number = int(row["canaries"])
    return f"only {number}" if number < FEW else f"{number}"


def _bits(row: pd.Series) -> str:
    """`10.0 bits (95 % interval 4.4 to 10.0)`."""
    return f"{row['exposure']:.1f} bits ({wording.interval_text(row['low'], row['high'], '{:.1f}'.format)})"


def patients_answer(name: str, people: pd.DataFrame) -> str:
    """A sentence: how many planted canary patients rank first, and their mean exposure next to the control."""
    figures = whole_patients(people).set_index("arm")
    if "run" not in figures.index:
        return f"**{name}**: the coin left all of them out."
    planted, own = people[people["inserted"]], figures.loc["run"]
    first = int((planted["rank"] == 1).sum())
    control = f"; those left out: {_bits(figures.loc['heldout'])}" if "heldout" in figures.index else ""
    ranks = f"{first} of {len(planted)} planted patients rank first"
    if len(planted) == 1:
        ranks = f"the one planted patient {'ranks' if first else 'does not rank'} first"
    return (
        f"**{name}**: {ranks}. Mean exposure: {_bits(own)}{control}. "
        f"The model wrote an identifier of {int(own['named']) or 'none'} of the planted patients in ordinary texts."
    )


def race_answer(name: str, race: pd.DataFrame) -> str:
    """A sentence: the exposure of the canaries planted least and most often, next to the one never planted."""
    ends = race.sort_values("epoch").groupby("copies")["exposure"].agg(["first", "last"])
    planted = [copies for copies in ends.index if copies > 0]
    if not planted:
        return f"{name}: no tracked canary was planted."
    copies, most = min(planted), max(planted)
    one, last = ends.loc[copies], ends["last"]
    others = f"; the one with {_copies(most)} ends at {last[most]:.1f}" if most > copies else ""
    others += f"; the one never planted ends at {last[0]:.1f}" if 0 in ends.index else ""
    return (
        f"**{name}**: the canary with {_copies(copies)} has {one['first']:.1f} bits after the first epoch and "
        f"{one['last']:.1f} after the last{others}."
    )


def bound_sentences(table: pd.DataFrame, unit: str) -> None:
    """What the audit fixed beforehand proved, what the others did, what they could have proved, and any alarm."""
    row = headline_bound(table)
    if row is None:
        st.info("This run has no ranked canaries and too few patients, so nothing can be proved about its ε.")
        return
    promised, fixed = float(row["promised"]), headline(table)
    sentence = wording.audit_sentence(float(row["epsilon"]), promised, float(row["ceiling"]))
    if row["alarm"]:
        chance = "At most one in ten runs whose guarantee holds shows such an alarm by chance."
        st.error(f"{sentence} (ε per {unit}) {chance}", icon=":material/warning:")
    else:
        st.markdown(f"**{sentence}** (ε per {unit}, 95\u00a0% confidence)")
    lines = [] if fixed is None else [_fixed(fixed, unit)]
    others, best = further(table), float(table["ceiling"].max())
    if len(others) and fixed is not None:
        lines.append(_further(others))
    if math.isfinite(promised) and best < promised:
        lines.append(
            f"No audit in this chart could have contradicted ε = {promised_text(promised)}: the "
            f"most they can prove is {proved_text(best)}. Finding nothing is not a proof; more canaries can prove more."
        )
    st.markdown(" ".join(lines))


def _further(others: pd.DataFrame) -> str:
    """What the audits beside the one fixed beforehand proved, and what they could have proved."""
    highest = others.loc[others["epsilon"].idxmax()]
    found, most = float(highest["epsilon"]), proved_text(float(highest["ceiling"]))
    if len(others) == 1:
        proved = f"ε ≥ {proved_text(found)}" if found else "nothing"
        return f"A further audit, which holds at another 95\u00a0%, proves {proved} (it could prove at most {most})."
    proved = (
        f"the highest proves ε ≥ {proved_text(found)} (it could prove at most {most})"
        if found
        else f"none proves anything (they could prove at most {proved_text(others['ceiling'].max())})"
    )
    return f"Of {len(others)} further audits, which hold jointly at another 95\u00a0%, {proved}."


def curve_sentence(table: pd.DataFrame) -> None:
    """What the same guesses prove by the run's own trade-off curve; nothing where there is none."""
    row = by_curve(table)
    if row is None:
        return
    told = wording.curve_sentence(
        float(row["epsilon"]), int(row["trials"]), float(row["promised"]), row["unit"], alarm=bool(row["alarm"])
    )
    if row["alarm"]:
        st.error(told, icon=":material/warning:")
    else:
        st.markdown(told)


def planted(proofs: pd.DataFrame, run_id: str) -> None:
    """What an attacker who sees every step proves, apart from the attacks on the finished model; or how to measure it.

    Args:
        proofs: what was stored of the run's planted gradients (`stored_proofs`).
        run_id: the run's.
    """
    st.markdown("**What if the attacker sees every training step?**")
    row = chosen_proof(proofs)
    if row is None:
        st.markdown(
            "The attacks above have only the finished model. What an attacker who sees every training step (white-box) "
            f"can prove was not measured for this run. To measure it: `{prove_command(run_id)}`."
        )
        return
    told = wording.planted_sentence(row)
    if row["alarm"]:
        st.error(told, icon=":material/warning:")
    else:
        st.markdown(told)
    if len(proofs) > 1:
        st.caption(
            f"{len(proofs)} such runs are stored. This is the first with the most canaries; each bound holds at "
            "95\u00a0% by itself."
        )


def _fixed(row: pd.Series, unit: str) -> str:
    """How many canaries the audit fixed beforehand had, how many it guessed correctly, and what it could prove."""
    if row["evidence"] != ONE_RUN:
        return ""
    canaries, guesses = sum(int(row[name]) for name in ("tp", "fn", "fp", "tn")), int(row["trials"])
    made = "" if guesses == canaries else f", made {guesses} guesses"
    correct = int(row["correct"])
    short, most = "" if correct == guesses else f", not all {guesses}", float(row["ceiling"])
    return (
        f"The audit fixed beforehand had {canaries} canaries of one {unit} each{made} and here guessed {correct} "
        f"correctly{short}. It could have proved {f'ε ≥ {proved_text(most)} at most' if most > 0 else 'nothing'}."
    )
