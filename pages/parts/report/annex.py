"""The annex of a report on screen: findings of each model, odds, every table, limits and commands, in folds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from core.common.versions import versions_text
from core.evaluation.wording import at_most_text, guaranteed_text
from pages.parts.common.data_table import csv_button
from pages.parts.common.phi_text import coded, literal
from pages.parts.session import owner

if TYPE_CHECKING:
    from core.evaluation.report.facts import Report

TITLES = {
    "accepted_limits": "The decision’s limits beside what was measured",
    "recommendation": "Every ε against your limits",
    "controls": "Attacks and controls",
    "strongest": "Membership: the strongest attack that was run",
    "strongest_note": "Membership: the strongest attack, by note",
    "attacks": "Membership attacks of the full audit",
    "memorised": "Notes repeated word for word",
    "tries": "How many tries a patient’s identifier takes",
    "probes": "Identity probes of the full audit",
    "bounds": "What attacks on the finished model prove about ε",
    "planted": "What an attacker who sees every step can prove about ε (white-box)",
    "hipaa": "HIPAA’s 18 identifiers",
    "crosswalk": "Crosswalk: NIST, HIPAA, EDPB, ICO",
    "rarity_buckets": "Rare diseases: how well members are recognised, by rarity",
    "rarity_trends": "Rare diseases: do patients with them leak more?",
    "ledger": "Releases so far",
    "checksums": "SHA-256 of the model’s and the cohort’s files",
    "costs": "Cost of training",
    "figures": "All figures",
}


def show(made: Report) -> None:
    """Everything that the report's annex has."""
    _label(made)
    _findings(made)
    with st.expander("How well could someone guess who was in the data?"):
        _odds(made)
    for name, title in TITLES.items():
        frame = made.tables[name]
        if len(frame):
            with st.expander(title):
                if name == "rarity_trends":
                    st.markdown(_trends(made))
                st.dataframe(_readable(frame, made), hide_index=True, alt=title)
                csv_button(frame, name=f"report-{name}")
    _notes_instead(made)
    with st.expander("Limits, commands and versions"):
        from core.evaluation.report.commands import parts_of_sentence  # imports scipy

        lines = (*made.facts["limits"], *made.facts["not_attacked"])
        st.markdown("\n".join(f"- {coded(parts_of_sentence(line))}" for line in lines))
        st.code("\n".join(made.facts["commands"]), language=None, wrap_lines=True)
        _versions(made)


def _versions(made: Report) -> None:
    """The versions that made the report, and those that trained each model."""
    from core.evaluation.report.label import trained_text

    lines = [f"This report – made with {versions_text(made.facts['versions'])}"]
    lines += [
        f"Model {made.facts['names'][run]} – {trained_text(found)}" for run, found in made.facts["trained_by"].items()
    ]
    for line in lines:
        st.caption(literal(line, 2_000))


def _label(made: Report) -> None:
    """The DP label: what the guarantee is about, what it rests on, and what it leaves out; none without privacy."""
    from core.evaluation.report import label

    told = made.facts["label"]
    rows = [
        (name, literal(text, 2_000)) for _, name, text in label.rows(told, made.facts["subject"]["verdict"] == "alarm")
    ]
    if rows:
        with st.expander("DP label"):
            st.table(pd.DataFrame(rows, columns=["", "label"]), border="horizontal", hide_index=True)
            st.markdown("**Not protected**")
            st.markdown("\n".join(f"- {literal(line, 2_000)}" for line in told["not_protected"]))


def _notes_instead(made: Report) -> None:
    """How to release synthetic notes instead of the model, if it can write some."""
    from core.pipeline.released_notes import can_write_notes

    run = made.facts["subject"]["run"]
    found = next((one for one in owner.workspace().runs() if one.id == run), None)
    if found is None or not can_write_notes(found):
        return
    with st.expander("Release synthetic notes instead of the model"):
        st.markdown(
            "People who receive notes instead of the model cannot prompt it. This command has the model write notes "
            "and attacks them: whose values do they hold, are they nearer to members’ notes than to others, and what "
            "does a model trained on them know about members? It also measures how useful they are, and writes a card. "
            "The ε that a private model promises also covers its notes; notes of a model without privacy have no "
            "guarantee."
        )
        st.code(f"python -m core notes {run} --count 1000 --out notes.csv", language=None, wrap_lines=True)


def _trends(made: Report) -> str:
    """The sentences about rarity, one line per model and attack."""
    names = made.facts["names"]
    return "\n".join(
        f"- **{literal(names[run])}** · {one}" for run, found in made.facts["rarity"].items() for one in found
    )


def _findings(made: Report) -> None:
    """Every finding about each model: its guarantee, what attackers could guess, and what the attacks found."""
    names = made.facts["names"]
    for one in made.facts["verdict"]:
        with st.expander(f"{literal(names[one['run']])}: guarantee and findings"):
            st.caption(one["run"])
            for sentence in one["sentences"]:
                st.markdown(literal(sentence, 2_000))


def _odds(made: Report) -> None:
    """The two bounds on a guess, side by side."""
    models = made.tables["models"]
    shown = pd.DataFrame(
        {
            "model": models["run"].map(made.facts["names"]),
            "ε": models["epsilon"].map(guaranteed_text),
            "protects one": models["unit"].replace("", "–"),
            "right guesses by (ε, δ)": models["right_guesses_promised"].map(at_most_text),
            "by this run's exact accounting": models["right_guesses_counted"].map(at_most_text),
        }
    )
    st.dataframe(
        shown,
        hide_index=True,
        alt="Right guesses whether one unit was in the data, if in and out were equally likely (a coin: 50\u00a0%)",
    )
    if (models["noise_source"] == "public seed").any():
        st.caption("For a model whose noise came from a public seed, these bounds would hold if it were secret.")


def _readable(frame: pd.DataFrame, made: Report) -> pd.DataFrame:
    """Runs by their short names, and no empty columns."""
    shown = frame.dropna(axis="columns", how="all")
    for column in ("run", "run_id"):
        if column in shown:
            shown = shown.assign(**{column: shown[column].map(made.facts["names"]).fillna(shown[column])})
    return shown
