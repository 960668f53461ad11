"""The Report page's parts: choosing models of one cohort, the verdict on screen, the tables, and the downloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.evaluation.wording import at_most_text, epsilon_text
from core.runs.run import Run
from pages.parts.common import chart_style, shell
from pages.parts.common.data_table import csv_button
from pages.parts.common.phi_text import literal
from pages.parts.pickers import run_picker
from pages.parts.report import picture
from pages.parts.session import classroom, owner, resources

if TYPE_CHECKING:
    from core.evaluation.report.facts import Report
    from core.evaluation.sweep.recommendation import Recommendation

MOST = 6  # models side by side that still fit a printed page
TITLES = {
    "recommendation": "Every ε against your limits",
    "controls": "Attacks and controls",
    "strongest": "Membership: the strongest attack that was run",
    "attacks": "Membership attacks of the full audit",
    "memorised": "Notes repeated word for word",
    "probes": "Identity probes of the full audit",
    "bounds": "What attacks prove about ε",
    "hipaa": "HIPAA’s 18 identifiers",
    "rarity_buckets": "Rare diseases: how well members are recognised, by rarity",
    "rarity_trends": "Rare diseases: do patients with them leak more?",
    "ledger": "Releases so far",
    "costs": "Cost of training",
    "figures": "All figures",
}


def choose(runs: Sequence[Run]) -> list[Run]:
    """The chosen runs; the choice is kept in the link (`?runs=id,id`)."""
    by_id = {run.id: run for run in runs}
    asked = [run_id for run_id in st.query_params.get("runs", "").split(",") if run_id in by_id]
    found = st.session_state.get("recommendation")
    pair = [run.id for run in run_picker.default_pair(runs) if run is not None]
    default = asked or ([found.run_id] if found is not None and found.run_id in by_id else pair)
    names = run_picker.labels(runs)

    def share() -> None:
        st.session_state["linked_runs"] = st.query_params["runs"] = ",".join(st.session_state["report_runs"])

    linked = st.query_params.get("runs")
    changed = st.session_state.get("linked_runs") != linked and "report_runs" in st.session_state
    st.session_state["linked_runs"] = linked
    if changed and asked:  # by the Back button, or in a class
        st.session_state["report_runs"], default = asked[:MOST], []
    ids = st.multiselect(
        "Models",
        list(by_id),
        default,
        format_func=names.__getitem__,
        key="report_runs",
        max_selections=MOST,
        on_change=share,
        help="Choose models that were trained on the same cohort.",
    )
    classroom.on_screen(runs=",".join(ids))
    return [by_id[run_id] for run_id in ids]


@resources.cached_object(max_entries=20, show_spinner=False)
def _outline(root: str, run_ids: tuple[str, ...]) -> Report:
    """The answer's part of the report of runs in the data folder `root`. Runs never change, so it can be cached."""
    from core.evaluation.report.facts import outline

    workspace = owner.workspace()
    return outline([workspace.run(run_id) for run_id in run_ids])


@resources.cached_object(max_entries=10, show_spinner="Reading runs, audits and the ledger, and computing odds …")
def _report(
    root: str, run_ids: tuple[str, ...], entries: int, audited: tuple, limits: str, _found: Recommendation | None
) -> tuple[Report, str]:
    """The report of runs in the data folder `root`, and its HTML. Made again when the ledger or an audit has grown.

    `limits` represents the recommendation in the cache's key.
    """
    from core.evaluation.report.facts import build
    from core.evaluation.report.html import render

    workspace = owner.workspace()
    made = build(workspace, [workspace.run(run_id) for run_id in run_ids], recommendation=_found)
    return made, render(made)


def show(runs: Sequence[Run], knobs: DeltaGenerator) -> None:
    """The verdict with its picture, the downloads among the knobs, and the rest in folds.

    If no report can be made, a sentence says why.
    """
    workspace = owner.workspace()
    _answer(_outline(str(workspace.root), tuple(run.id for run in runs)))
    folder = workspace.root / "ledger" / runs[0].spec.corpus.digest()
    audited = tuple(
        (run.id, outcome.attack, outcome.finished)
        for run in runs
        for outcome in workspace.audit(run.id).outcomes().values()
    )
    ids = tuple(run.id for run in runs)
    found = _recommendation(ids)
    limits = "" if found is None else repr((found.limits, found.sentences))
    try:
        made, page = _report(str(workspace.root), ids, len(list(folder.glob("*.json"))), audited, limits, found)
    except ValueError as error:  # several cohorts, or a damaged ledger: a sentence
        st.error(str(error), icon=":material/error:")
        return
    with knobs:
        _downloads(made, page)
    _next_steps(made)
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
    with st.expander("Limits, commands and versions"):
        st.markdown("\n".join(f"- {sentence}" for sentence in (*made.facts["limits"], *made.facts["not_attacked"])))
        st.code("\n".join(made.facts["commands"]), language=None, wrap_lines=True)
        st.caption("; ".join(f"{name} {number}" for name, number in made.facts["versions"].items()))


def _trends(made: Report) -> str:
    """The sentences about rarity, one line per model and attack."""
    names = made.facts["names"]
    return "\n".join(f"- **{names[run]}** · {one}" for run, found in made.facts["rarity"].items() for one in found)


def _recommendation(run_ids: tuple[str, ...]) -> Recommendation | None:
    """The recommendation for this session's limits (trade-off page), if it includes one of these runs."""
    found = st.session_state.get("recommendation")
    return found if found is not None and set(found.runs["run_id"]) & set(run_ids) else None


def _answer(made: Report) -> None:
    """The sentences and the picture, before the rest of the report is computed."""
    for line in picture.answers(made):
        st.markdown(line)
    found = picture.leaks(made)
    if len(found):
        chart_style.show(picture.dots(found), key="report-leaks", alt=picture.ALT)


def _downloads(made: Report, page: str) -> None:
    for label, name, mime, data, icon in (
        ("Report (HTML, prints to PDF)", "report.html", "text/html", page, "description"),
        ("JSON", "report.json", "application/json", made.to_json, "data_object"),
        ("All tables (CSV)", "report.zip", "application/zip", lambda: made.to_zip(page), "folder_zip"),
    ):
        st.download_button(
            label,
            data,
            name,
            mime,
            icon=f":material/{icon}:",
            on_click="ignore",
            key=f"download-{name}",
            type="primary" if name == "report.html" else "secondary",
            width="stretch",
        )


def _next_steps(made: Report) -> None:
    """What is recommended, and what was released so far."""
    for sentence in made.facts["recommendation"]["sentences"]:
        st.markdown(f":material/balance: {literal(sentence, 2_000)}")
    if not len(made.tables["recommendation"]):
        shell.link("tradeoff", "Set limits and get a recommendation", icon=":material/balance:")
    for sentence in made.facts["promised"]["sentences"]:
        st.markdown(f":material/receipt_long: {sentence}")


def _findings(made: Report) -> None:
    """Every finding about each model: its guarantee, what attackers could guess, and what the attacks found."""
    names = made.facts["names"]
    for one in made.facts["verdict"]:
        with st.expander(f"{names[one['run']]}: guarantee and findings"):
            st.caption(one["run"])
            for sentence in one["sentences"]:
                st.markdown(sentence)


def _odds(made: Report) -> None:
    """The two bounds on a guess, side by side."""
    models = made.tables["models"]
    shown = pd.DataFrame(
        {
            "model": models["run"].map(made.facts["names"]),
            "ε": models["epsilon"].map(epsilon_text),
            "protects one": models["unit"].replace("", "–"),
            "right guesses by (ε, δ)": models["right_guesses_promised"].map(at_most_text),
            "by this run's exact accounting": models["right_guesses_counted"].map(at_most_text),
        }
    )
    st.dataframe(
        shown, hide_index=True, alt="Right guesses whether one unit was in the data; a coin toss gets 50\u00a0%"
    )


def _readable(frame: pd.DataFrame, made: Report) -> pd.DataFrame:
    """Runs by their short names, and no empty columns."""
    shown = frame.dropna(axis="columns", how="all")
    for column in ("run", "run_id"):
        if column in shown:
            shown = shown.assign(**{column: shown[column].map(made.facts["names"]).fillna(shown[column])})
    return shown
