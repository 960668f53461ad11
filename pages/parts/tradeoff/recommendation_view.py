"""Which ε, and which run, for the reader's limits: sliders, the verdict for every ε, and the cost of each run."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.attacks.membership.decision import in_words
from core.evaluation import registry
from core.evaluation.figures.limited import UTILITY
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.sweep import advice
from core.evaluation.sweep import limits as lim
from core.evaluation.sweep.limit_measures import costs, measures
from core.evaluation.sweep.recommendation import Recommendation, epsilon_name, fails_by_smaller
from core.evaluation.sweep.sweeps import Sweep, sweeps_of
from core.runs.run import RunBroken, RunNotFound
from pages.parts.common import shell
from pages.parts.common.data_table import data_table
from pages.parts.common.phi_text import literal
from pages.parts.common.query_params import KEEP
from pages.parts.session import owner, resources
from pages.parts.train.link import with_secret_noise

RECOMMENDED = "recommendation"  # session key of the compared runs and of this reader's limits
NOTHING_MET = (
    "What may help: more training notes, so that the same ε costs less usefulness; an ε between these; or a "
    "limit that you can relax."
)
USES = ("not stated", "direct patient care", "clinical research", "medical education", "administration")


@resources.cached_data(max_entries=20, show_spinner="Reading every run’s scores …")
def measures_of(root: str, run_ids: tuple[str, ...], audited: tuple[float, ...]) -> pd.DataFrame:
    """Figures that can be limited, for runs in the data folder `root`; computed again after another audit has ended."""
    workspace = owner.workspace()
    runs = [workspace.run(run_id) for run_id in run_ids]
    return measures(runs, workspace.find(runs[0].spec.base_spec()), {one: workspace.audit(one) for one in run_ids})


@resources.cached_data(max_entries=20, show_spinner=False)
def costs_of(root: str, run_ids: tuple[str, ...]) -> pd.DataFrame:
    """Costs of the runs."""
    return costs([owner.workspace().run(run_id) for run_id in run_ids])


@resources.cached_data(max_entries=20, show_spinner=False)
def control_of(root: str, base_id: str) -> Interval | None:
    """AUC by patient of the loss attack on a public base model; None if it cannot be computed."""
    from core.evaluation.membership.of_run import strongest_on  # imports scipy

    found = strongest_on(owner.workspace().run(base_id), None)
    return None if found is None else found.interval


def limits() -> lim.Limits | None:
    """The reader's limits, kept in the link. None while no risk is chosen."""
    known, gain = registry.limits(), registry.figure(UTILITY).limit
    with st.container(border=True):
        left, right = st.columns([1, 2])
        use = left.selectbox(
            "What the model is for",
            USES,
            key="use",
            accept_new_options=True,
            help="It is named in the result. It does not change the limits.",
            **KEEP,
        )
        chosen = right.multiselect(
            "Risks that must stay low",
            list(known),
            [name for name, limit in known.items() if limit.chosen],
            key="risks",
            format_func=registry.measure_name,
            wrap=True,  # in a form, one line that is cut off is Streamlit's usual
            **KEEP,
        )
        risks, columns = {}, st.columns(max(2, len(chosen) + 1))
        for column, name in zip(columns, chosen, strict=False):
            risks[name] = _limit(column, name)
        utility = columns[len(chosen)].slider(
            "Usefulness (gain kept), at least",
            0,
            100,
            round(100 * gain.start) if gain else 0,
            1,
            format="%d %%",
            key="utility",
            **KEEP,
            help="Share of what training without privacy gains on held-out notes. 0\u00a0% is the public model, "
            "100\u00a0% the run without privacy. That run is overfitted, so 100\u00a0% is a reference and not a goal.",
        )
    if not chosen:
        st.info("Choose at least one risk: a recommendation weighs risk against usefulness.")
        return None
    return lim.Limits(risks, utility / 100, "" if use in (None, USES[0]) else use[: lim.MOST_LETTERS])


def _limit(column: DeltaGenerator, name: str) -> float:
    limit, figure = registry.limits()[name], registry.figure(name)
    title, about = f"{limit.label[0].upper()}{limit.label[1:]}, at most", f"{limit.explanation}."
    least, most = registry.limit_range(name)
    if figure.number.share:
        least, most, start = (round(100 * end) for end in (least, most, limit.start))
        percent = column.slider(title, least, most, start, 1, format="%d %%", key=f"limit_{name}", help=about, **KEEP)
        return percent / 100
    least = least if figure.blind is None else figure.blind
    return column.slider(title, least, most, limit.start, 0.01, key=f"limit_{name}", help=about, **KEEP)


def recommended() -> Recommendation | None:
    """The recommendation for the limits last set in this session, by what is measured now; None without limits."""
    if RECOMMENDED not in st.session_state:
        return None
    try:
        return _advise(*st.session_state[RECOMMENDED])
    except (RunNotFound, RunBroken):  # deleted since
        return None


def _advise(run_ids: tuple[str, ...], wanted: lim.Limits) -> Recommendation:
    workspace = owner.workspace()
    ended = tuple(one.finished for run_id in run_ids for one in workspace.audit(run_id).outcomes().values())
    root, base = str(workspace.root), workspace.find(workspace.run(run_ids[0]).spec.base_spec())
    control = None if base is None else control_of(root, base.id)
    return advice.advise(workspace, measures_of(root, run_ids, ended), wanted, control)


def show(sweep: Sweep) -> None:
    """The limits, the recommendation from these runs, and every ε against every limit."""
    st.markdown(
        "Set your limits for risk and usefulness. Each ε below is compared with them by what **these** runs measured. "
        "A limit is met only if the worse end of the 95\u00a0% interval meets it."
    )
    wanted = limits()
    if wanted is None:
        return
    run_ids = advice.compared_runs(sweep, sweeps_of(owner.workspace().runs()))
    found = _advise(run_ids, wanted)
    st.session_state[RECOMMENDED] = run_ids, wanted  # for the Report page
    st.markdown(f"## {_verdict(found)}")
    if rests := _rests_on(found):
        st.badge(rests, icon=":material/info:", color="orange")
    st.markdown(" ".join(found.sentences[:2]))  # the promise to a patient belongs beside the ε
    st.markdown("\n".join(f"- {sentence}" for sentence in found.sentences[2:]))
    spent = costs_of(str(owner.workspace().root), run_ids)
    st.dataframe(
        _wide(found.table, spent),
        hide_index=True,
        width="stretch",
        alt="Every ε against every limit",
        column_config={name: st.column_config.Column(width=width) for name, width in WIDTHS.items()},
    )
    st.caption(
        "Means over seeds with their 95\u00a0% intervals. Where only some of the seeds had a full audit (“1 of 3”), "
        f"membership figures come from these. {_attacks_caption(found.table)}Time is measured on the machine that "
        "trained the run."
    )
    _next_steps(found)
    data_table(found.table, name="limits", label="Unrounded figures")
    data_table(found.runs, name="limits-runs", label="Every run separately")
    data_table(spent, name="costs", label="Cost of each run")
    with st.expander("How is this computed?"):
        st.markdown(HOW)


def _next_steps(found: Recommendation) -> None:
    """What to do with the recommendation, in the order in which it is done."""
    run = owner.workspace().run(found.run_id) if found.run_id else None
    if found.epsilon is None:
        st.markdown(NOTHING_MET)
    with st.container(horizontal=True):
        if run is not None and run.has_model and advice.untried(found):
            shell.link("membership", "Run the full audit", icon=":material/swords:", query={"left": run.id})
        again = None if run is None or run.spec.privacy.noise_source == "secret" else with_secret_noise(run.spec)
        if again is not None:
            shell.link("train", "Train it with secret noise", icon=":material/model_training:", query=again)
        added = "Put these limits in a report" if found.epsilon is None else "Add to a report"
        shell.link("report", added, icon=":material/description:")
        shell.link("ledger", "See all releases", icon=":material/receipt_long:")


def _rests_on(found: Recommendation) -> str:
    """That a recommendation rests on one run or one attack; empty if it rests on more, or if there is none."""
    rows = found.table[(found.table["unit"] == found.unit) & (found.table["epsilon"] == found.epsilon)]
    if found.epsilon is None or rows.empty:
        return ""
    single = [registry.measure_name(one) for one in rows.loc[rows["seeds"] == 1, "measure"]]
    parts = []
    if single:
        parts = ["one run" if len(single) == len(rows) else f"one run for {' and '.join(single)}"]
    parts += ["one attack, the loss"] if advice.untried(found) else []
    return f"rests on {' and '.join(parts)}" if parts else ""


def _verdict(found: Recommendation) -> str:
    use = f" for {literal(found.limits.use_case)}" if found.limits.use_case else ""
    if found.epsilon is None:
        return f"None of these runs meets both{use}"
    whom = ", not per patient" if found.unit == "note" else ""
    return f"Recommended{use}: ε = {epsilon_name(found.unit, found.epsilon)}{whom}"


def _wide(table: pd.DataFrame, spent: pd.DataFrame) -> pd.DataFrame:
    """One row per ε, one column per measure: the figure with its interval, and a mark; then attack, seeds and time."""
    rows, cost = [], spent.groupby(["unit", "epsilon"])["seconds"].mean()
    for (unit, epsilon), same in table.groupby(["unit", "epsilon"], sort=False):
        seeds = int(same["seeds"].max())
        attacked = same[same["attack"] != ""]
        of = (
            f"{seeds}"
            if attacked.empty or attacked["seeds"].min() == seeds
            else f"{attacked['seeds'].min()} of {seeds}"
        )
        row = {"ε": epsilon_name(unit, epsilon), "seeds": of, "all met": _all_met(same)}
        for one in same.to_dict("records"):
            value, low, high = (registry.measure_text(one["measure"], one[end]) for end in ("value", "low", "high"))
            row[registry.measure_name(one["measure"])] = f"{_mark(one)} {value} ({low} to {high})"
        if len(attacked):
            row["attack"] = "; ".join(dict.fromkeys(map(_attack, attacked.to_dict("records"))))
        if (unit, epsilon) in cost.index:
            row["time"] = f"{cost.loc[(unit, epsilon)] / 60:.1f} min"
        rows.append(row)
    wide = pd.DataFrame(rows)
    last = ("attack", "seeds", "time", "all met")
    return wide[[*(name for name in wide if name not in last), *(name for name in last if name in wide)]]


def _mark(row: Mapping[Hashable, Any]) -> str:
    """✓ if a limit is met, ✗ if not, and ? where the figure meets it but a smaller ε does not."""
    return "✓" if row["met"] else "?" if fails_by_smaller(row) else "✗"


def _all_met(rows: pd.DataFrame) -> str:
    """The mark of a row of the table: the worst of its cells'."""
    marks = {_mark(row) for row in rows.to_dict("records")}
    return next(mark for mark in "✗?✓" if mark in marks)


def _attack(row: Mapping[Hashable, Any]) -> str:
    """The membership attack of a cell, by its name in tables: `rmia, of 10`; `loss only`."""
    return f"{row['attack']}, of {row['attacks']}" if row["attacks"] > 1 else f"{row['attack']} only"


def _attacks_caption(table: pd.DataFrame) -> str:
    """What the column of attacks means, with a space after it; empty if no attack was chosen for any figure."""
    rows = table[table["attack"] != ""]
    if rows.empty:
        return ""
    meaning = (
        f"Attack: the strongest that was run, and of how many: {', '.join(map(in_words, rows['attack'].unique()))}. "
    )
    if not any(fails_by_smaller(row) for row in rows.to_dict("records")):
        return meaning
    return (
        f"{meaning}?\u00a0The loss attack alone would pass, but a smaller ε fails under a full audit: this ε does not "
        "count as met. "
    )


WIDTHS = {"ε": 125, "attack": 165, "seeds": 60, "time": 80, "all met": 70}  # pixels: all columns fit on 1280

HOW = """
- *Gain kept* (usefulness): (ln pp_base − ln pp) / (ln pp_base − ln pp_∞), pp the perplexity on held-out patients' notes
  (for BERT and DistilBERT the pseudo-perplexity). 100 % is the run without privacy, which is overfitted: a reference.
- *Membership* is evaluated by patient (mean score of their notes) with the strongest attack of the full audit if there
  is one, else with the quick audit's loss attack. The strongest of N looks stronger than it is; its interval is
  widened (Bonferroni: N intervals at 1 − 0.05/N), so that it holds at 95 % whichever attack was chosen. If a full audit
  breaks a limit at some ε, the loss attack alone cannot clear a larger one.
- *Members caught*: members above the threshold that accuses 10 % of held-out patients.
- *Excess*: the figure for members minus the same for held-out patients, with the interval of a difference (MOVER).
- The figure of an ε is the mean over seeds. Its interval is Student's t, never narrower than the average of the runs'
  own.
- An ε per patient is recommended before one per note. The recommendation is the **smallest** ε that meets every limit
  and, of its runs that meet every limit by their own interval, the one whose usefulness is highest at the worse end.
- Such a choice looks at the private notes, which ε does not cover.
"""
