"""The Report page's parts: choosing models of one cohort, the first page on screen, and the downloads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.evaluation import comparison
from core.evaluation.wording import unbroken
from core.runs.run import Run
from pages.parts.access import viewer
from pages.parts.common import chart_style, shell
from pages.parts.common.phi_text import coded, literal
from pages.parts.pickers import gone_models, linked_choice, run_picker
from pages.parts.report import annex, decision_form, picture
from pages.parts.session import classroom, owner, resources
from pages.parts.tradeoff import recommendation_view

if TYPE_CHECKING:
    from core.evaluation.report.facts import Rarity, Report
    from core.evaluation.sweep.recommendation import Recommendation
    from core.runs.store import Workspace

MOST = 6  # models side by side that still fit a printed page
ABOUT = "about"  # the link's parameter: the run that is decided about


@dataclass(frozen=True)
class Key:
    """What a report depends on, apart from the decision: the key of caches."""

    runs: tuple[str, ...]
    about: str | None
    entries: int  # of the ledger
    audited: tuple  # every attack of a full audit that has ended, and every proof by planted gradients
    limits: str  # represents the recommendation


def choose(runs: Sequence[Run]) -> list[Run]:
    """The chosen runs; the choice is kept in the link (`?runs=id,id`)."""
    by_id = {run.id: run for run in runs}
    asked = [run_id for run_id in st.query_params.get("runs", "").split(",") if run_id in by_id][:MOST]
    found = recommendation_view.recommended()
    pair = [run.id for run in run_picker.opening_pair_of_one_cohort(runs) if run is not None]
    default = asked or ([found.run_id] if found is not None and found.run_id in by_id else pair)
    names = run_picker.labels(runs)

    def share() -> None:
        gone_models.forget("runs")
        st.session_state["linked_runs"] = st.query_params["runs"] = ",".join(st.session_state["report_runs"])

    linked = st.query_params.get("runs")
    changed = st.session_state.get("linked_runs") != linked and "report_runs" in st.session_state
    st.session_state["linked_runs"] = linked
    back = linked is None and linked_choice.by_history()  # to the address that the page was opened by
    if changed and (asked or back):  # by the Back button, or in a class
        st.session_state["report_runs"], default = default, []
    ids = st.multiselect(
        "Models",
        [run.id for run in run_picker.in_order(runs)],
        default,
        format_func=names.__getitem__,
        key="report_runs",
        max_selections=MOST,
        on_change=share,
        help="Choose models that were trained on the same cohort.",
    )
    if not asked and found is not None and found.run_id and ids == [found.run_id]:
        st.session_state["linked_runs"] = st.query_params["runs"] = found.run_id  # so that a link shows the same
    shown = [by_id[run_id] for run_id in ids if run_id in by_id]
    gone_models.say("runs", shown, by_id, ", ".join(names[run.id] for run in shown))
    known = {*by_id, *gone_models.said("runs")}
    gone = [run_id for run_id in (linked or "").split(",") if run_id and run_id not in known]
    if gone:
        named = ", ".join(f"“{literal(run_id, 60)}”" for run_id in gone[:MOST])
        st.warning(f"Not on this server, so not in this report: {named}.", icon=":material/link_off:")
    classroom.on_screen(runs=",".join(ids))
    return [by_id[run_id] for run_id in ids]


@resources.cached_object(max_entries=20, show_spinner=False)
def _outline(root: str, run_ids: tuple[str, ...], entries: int) -> Report:
    """The part of a report that is drawn at once, of runs in the data folder `root` with a ledger of `entries`."""
    from core.evaluation.report.facts import outline

    workspace = owner.workspace()
    return outline(workspace, [workspace.run(run_id) for run_id in run_ids])


@resources.cached_object(max_entries=20, show_spinner="Reading runs, audits and the ledger …")
def _first_page(root: str, key: Key, decision: str, _workspace: Workspace, _found: Recommendation | None) -> Report:
    """The first page about the runs of `key`. Made again when the ledger or an audit has grown."""
    from core.evaluation.report.decision import Decision
    from core.evaluation.report.facts import first_page

    return first_page(
        _workspace,
        [_workspace.run(run_id) for run_id in key.runs],
        recommendation=_found,
        subject=key.about,
        decision=Decision.model_validate_json(decision),
    )


@resources.cached_object(max_entries=10, show_spinner=False)
def _rarity(root: str, runs: tuple[str, ...], audited: tuple, _workspace: Workspace) -> Rarity:
    """The section on rare diseases, which takes most of a report's time and depends on no decision."""
    from core.evaluation.report.facts import rarity_of

    return rarity_of(_workspace, [_workspace.run(run_id) for run_id in runs])


@resources.cached_object(max_entries=10, show_spinner=False)
def _report(
    root: str, key: Key, decision: str, _workspace: Workspace, _found: Recommendation | None
) -> tuple[Report, str]:
    """The whole report about the runs of `key`, and its HTML."""
    from core.evaluation.report.decision import Decision
    from core.evaluation.report.facts import build
    from core.evaluation.report.html import render

    made = build(
        _workspace,
        [_workspace.run(run_id) for run_id in key.runs],
        recommendation=_found,
        subject=key.about,
        decision=Decision.model_validate_json(decision),
        rare=_rarity(root, key.runs, key.audited, _workspace),
    )
    return made, render(made)


def show(runs: Sequence[Run], knobs: DeltaGenerator) -> None:
    """The verdict with its picture and the ten facts, the downloads among the knobs, and the annex behind a button.

    If no report can be made, a sentence says why.
    """
    workspace = owner.workspace()
    root, ids = str(workspace.root), tuple(run.id for run in runs)
    entries = len(list((workspace.root / "ledger" / runs[0].spec.corpus.digest()).glob("*.json")))
    try:
        outline = _outline(root, ids, entries)
    except ValueError as error:  # a damaged ledger: a sentence
        st.error(literal(str(error), 600), icon=":material/error:")
        return
    with knobs:
        about = _about(runs, outline)
    found = _recommendation(ids)
    key = Key(
        ids,
        about,
        entries,
        tuple(
            (run.id, outcome.attack, outcome.finished)
            for run in runs
            for stored in (workspace.audit(run.id), workspace.audit(run.id).proving())
            for outcome in stored.outcomes().values()
        ),
        "" if found is None else repr((found.limits, found.sentences, found.table.to_csv(index=False))),
    )
    decision = decision_form.given().model_dump_json()
    sentences = st.container()  # above the picture; an alarm, which they depend on, is in the first page
    _picture(outline)
    if unlike := comparison.differences(runs):
        st.caption(f"{unlike} {comparison.LOOK}")
    try:
        first = _first_page(root, key, decision, workspace, found)
    except ValueError as error:  # several cohorts, or a damaged audit: a sentence in place of the verdict
        sentences.error(literal(str(error), 600), icon=":material/error:")
        return
    subject = first.facts["subject"]
    sentences.markdown(unbroken(f"{picture.name_in_bold(subject['name'])} **{subject['sentence']}**"))
    for line in picture.answers(first):
        sentences.markdown(unbroken(line))
    _glance(first)
    _next_steps(first)
    with st.expander("Decision: who gets the model, and who signs"):
        decision_form.show()
    whole = partial(_report, root, key, decision, workspace, found)
    with knobs:
        _downloads(whole)
    if st.toggle("Show the annex: findings, attacks, every table", key="report_annex"):
        with st.spinner("Computing the annex …"):
            made, _ = whole()
        annex.show(made)


def _about(runs: Sequence[Run], outline: Report) -> str | None:
    """The id of the run that the first page is about; None, the report's own choice, for one run alone.

    A choice is kept in the link (`?about=<run id>`).
    """
    if len(runs) == 1:
        return None
    from core.evaluation.report.glance import subject_of

    key, ids = "report_about", [run.id for run in runs]
    linked = st.query_params.get(ABOUT)
    adopted = linked_choice.adopt(ABOUT, key, ids)  # then the box may have no start value
    chosen = st.selectbox(
        "Main model",
        ids,
        0 if adopted else ids.index(subject_of(runs, linked if linked in ids else None).id),
        format_func=outline.facts["names"].__getitem__,
        key=key,
        on_change=linked_choice.share,
        args=(ABOUT, key, ids),
        help="The model that the report’s first page is about. The others are compared with it in the annex.",
    )
    linked_choice.shown(ABOUT, chosen)
    return chosen


def _recommendation(run_ids: tuple[str, ...]) -> Recommendation | None:
    """The recommendation for this session's limits (trade-off page), if it includes one of these runs."""
    found = recommendation_view.recommended()
    return found if found is not None and set(found.runs["run_id"]) & set(run_ids) else None


def _picture(made: Report) -> None:
    """The leaks beside their controls, before the rest of the report is computed."""
    found = picture.leaks(made)
    if len(found):
        chart_style.show(picture.dots(found), key="report-leaks", alt=picture.ALT)


def _glance(first: Report) -> None:
    """The report's first page: ten facts, conditions of release, and open questions. The verdict is on top."""
    from core.evaluation.report.commands import parts_of_sentence  # imports scipy

    st.header(literal(first.facts["subject"]["name"], 200))
    facts = [(f"**{one['question']}**", literal(unbroken(one["answer"]), 2_000)) for one in first.facts["glance"]]
    st.table(pd.DataFrame(facts, columns=["question", "fact"]), border="horizontal", hide_index=True)
    for title, lines in (("Conditions of release", first.facts["conditions"]), ("Open questions", first.facts["open"])):
        with st.expander(title):
            st.markdown("\n".join(f"- {coded(parts_of_sentence(line))}" for line in lines))


def _downloads(whole: Callable[[], tuple[Report, str]]) -> None:
    """Files of the whole report, each made when its button is pressed."""
    for label, name, mime, data, icon in (
        ("Report (HTML, prints to PDF)", "report.html", "text/html", lambda: whole()[1], "description"),
        ("JSON", "report.json", "application/json", lambda: whole()[0].to_json(), "data_object"),
        ("All tables (CSV)", "report.zip", "application/zip", lambda: _zipped(*whole()), "folder_zip"),
    ):
        st.download_button(
            label,
            viewer.later(data),
            name,
            mime,
            icon=f":material/{icon}:",
            on_click="ignore",
            key=f"download-{name}",
            type="primary" if name == "report.html" else "secondary",
            width="stretch",
        )


def _zipped(made: Report, page: str) -> bytes:
    return made.to_zip(page)


def _next_steps(made: Report) -> None:
    """The decision's limits, what is recommended, and what was released so far."""
    from core.evaluation.report.commands import parts_of_sentence  # imports scipy
    from core.evaluation.report.what_follows import limits_sentence

    if len(accepted := made.tables["accepted_limits"]):
        st.markdown(f":material/how_to_vote: {literal(limits_sentence(accepted.to_dict('records')), 2_000)}")
    for line in made.facts["accepted_limits"]:
        st.markdown(f":material/rule: Accepted limit: {literal(line, 2_000)}.")
    for sentence in made.facts["recommendation"]["sentences"]:
        st.markdown(f":material/balance: {coded(parts_of_sentence(sentence))}")
    if not len(made.tables["recommendation"]):
        shell.link(
            "tradeoff", "Set limits and get a recommendation", icon=":material/balance:", query={"view": "Which ε?"}
        )
    for sentence in made.facts["promised"]["sentences"]:
        st.markdown(f":material/receipt_long: {literal(unbroken(sentence), 2_000)}")
