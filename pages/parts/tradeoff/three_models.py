"""What noise, clipping and training less cost and save: the private run beside its controls at one ε."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import pandas as pd
import streamlit as st

from core.common.formatting import setting_text
from core.evaluation.comparison import trained
from core.evaluation.sweep import beside
from core.evaluation.sweep.beside import BITS, NAMES, PATIENT_AUC
from core.evaluation.wording import percent
from core.runs.run import Run
from pages.parts.common import chart_style
from pages.parts.common.data_table import data_table
from pages.parts.session import owner, resources
from pages.parts.tradeoff.models import Models, metrics_of

NAMED_PATIENTS, AUC = "full_name_patients", "auc_loss"
COLOURS = {
    beside.BASE: chart_style.CONTROL,
    beside.PRIVATE: chart_style.PRIVATE,
    beside.NOISELESS: chart_style.OKABE_ITO["orange"],
    beside.PLAIN: chart_style.RISK,
}
MISSING = (
    "The same training without noise was not run at this ε. So the cost of noise cannot be separated here from that of "
    "clipping, larger batches and fewer steps."
)


def show(epsilon: float, models: Models) -> None:
    """The comparison at ε: which models, what each leaks, how useful each is; at ∞ there is no private run."""
    st.header("What do noise, clipping and less training cost, and what do they prevent?", anchor=False)
    named = models.named()
    st.markdown("\n".join(f"- **{_heading(name, epsilon)}**: {_about(name, models)}." for name in named))
    if models.private and not models.noiseless:
        st.caption(MISSING)
    if not models.private:
        st.caption("Move the slider to an ε to see a private run and its controls.")
    root = str(owner.workspace().root)
    figures = _figures(root, tuple(named.items()))
    chosen = _measures(figures)
    st.html(table_html(figures, chosen, epsilon))
    common = models.of_common_seeds()
    said = cost_sentence(_figures(root, tuple(common.named().items())), epsilon) if common.noiseless else ""
    if said:
        st.markdown(said)
    st.caption(explained(metrics_of([one for run_ids in named.values() for one in run_ids])))
    data_table(_table(figures, chosen), name="three-models")


@resources.cached_data(max_entries=100, show_spinner="Comparing the models …")
def _figures(root: str, named: tuple[tuple[str, tuple[str, ...]], ...]) -> pd.DataFrame:
    models = dict(named)
    return beside.beside(metrics_of([run_id for run_ids in models.values() for run_id in run_ids]), models)


def _heading(name: str, epsilon: float) -> str:
    if name == beside.PRIVATE:
        return f"Private run, ε = {setting_text(epsilon)}"
    return name[0].upper() + name[1:]


def _about(name: str, models: Models) -> str:
    """What a model is, with the steps and batch of its first run."""
    groups: tuple[Sequence[Run | None], ...] = ([models.base], models.private, models.noiseless, models.plain)
    run = dict(zip(beside.MODELS, groups, strict=True))[name][0]
    recipe = "" if run is None or name == beside.BASE else f" ({trained(run)})"
    unit = models.private[0].spec.privacy.unit if models.private else "note"
    return f"{beside.about(name, unit)}{recipe}"


def _measures(figures: pd.DataFrame) -> list[tuple[str, str]]:
    """(metric, label) of what is drawn: names, membership by note and by patient, canaries, bits per character."""
    there = set(figures.loc[figures["arm"] == "run", "metric"])
    exposure = _most_copies(there)
    names = (NAMES, "texts with a full name") if NAMES in there else (NAMED_PATIENTS, "patients by full name")
    wanted = [
        names,
        (AUC, "AUC of the loss attack, by note"),
        (PATIENT_AUC, "AUC of the loss attack, by patient"),
        (exposure, f"canaries, bits ({_copies(exposure)} copies)" if exposure else ""),
        (BITS, "bits per character"),
    ]
    return [(metric, label) for metric, label in wanted if metric in there]


def explained(metrics: pd.DataFrame) -> str:
    """What the controls of the figures are, of canaries only where they were measured."""
    canaries = bool(_most_copies(metrics["metric"]))
    return (
        "Below each figure: its 95\u00a0% interval, then its control with an interval, which is the same share for "
        f"held-out patients (texts: scaled to as many patients{'; canaries: those never planted' * canaries}). The "
        "control of an AUC is that of the public model. Random guessing has an AUC of 0.5"
        f"{' and 1.4 bits of exposure' * canaries}. Bits per character compare models with different tokenizers; "
        f"lower is more useful.{canaries_sentence(metrics)}"
    )


def canaries_sentence(metrics: pd.DataFrame) -> str:
    """Of how few canaries the exposure and its control are, after a blank; empty if it was not measured."""
    exposure = _most_copies(metrics["metric"])
    rows = metrics[metrics["metric"] == exposure]
    planted, left = (rows.loc[rows["arm"] == arm, "n"].max() for arm in ("run", "heldout"))
    if not exposure or math.isnan(planted):
        return ""
    control = "" if math.isnan(left) else f", compared with {left:.0f} left out that would have had as many copies"
    return (
        f" The bits are means of {planted:.0f} {'canary' if planted == 1 else 'canaries'} planted {_copies(exposure)} "
        f"times{control}. Even for a model not trained on them, about one in ten such intervals lies wholly below "
        "the 1.4 of random guessing."
    )


def _most_copies(metrics: Iterable[str]) -> str:
    """The exposure of the canaries with the most copies; empty without canaries."""
    return max((one for one in metrics if one.startswith("exposure:")), key=_copies, default="")


def _copies(metric: str) -> int:
    return int(metric.partition(":")[2] or 0)


def table_html(figures: pd.DataFrame, chosen: list[tuple[str, str]], epsilon: float) -> str:
    """A row a model and a column a figure: the value, below it the interval and the control."""
    head = "".join(f"<th>{html.escape(label)}</th>" for _, label in chosen)
    rows = []
    for model in dict.fromkeys(figures["model"]):
        own = figures[figures["model"] == model].set_index(["metric", "arm"])
        cells = "".join(f"<td>{_cell(own, metric)}</td>" for metric, _ in chosen)
        style = f"border-left: 5px solid {COLOURS[model]}; padding-left: 0.6em"
        rows.append(f'<tr><th style="{style}">{html.escape(_heading(model, epsilon))}</th>{cells}</tr>')
    return f'<div class="scrolled"><table class="tally"><tr><td></td>{head}</tr>{"".join(rows)}</table></div>'


def _cell(own: pd.DataFrame, metric: str) -> str:
    """One figure as HTML: its value in bold, its 95 % interval, and its control likewise, on held-out patients."""
    if (metric, "run") not in own.index:
        return "not measured"
    now, number = own.loc[(metric, "run")], partial(_number, metric)
    lines = [f"<b>{html.escape(number(now['value']))}</b>"]
    if limits := _limits(now, number):
        lines.append(html.escape(limits))
    if (metric, "heldout") in own.index:
        control = own.loc[(metric, "heldout")]
        limits = _limits(control, number)
        lines.append(html.escape(f"control {number(control['value'])}" + (f" ({limits})" if limits else "")))
    return "<br>".join(lines)


def _limits(row: pd.Series, number: Callable[[float], str]) -> str:
    """The ends of a 95 % interval; empty if there is none."""
    return "" if math.isnan(row["low"]) or math.isnan(row["high"]) else f"{number(row['low'])} to {number(row['high'])}"


def _share(metric: str) -> bool:
    return metric in (NAMES, NAMED_PATIENTS)


def _number(metric: str, value: float) -> str:
    return percent(value) if _share(metric) else f"{value:.2f}"


def cost_sentence(figures: pd.DataFrame, epsilon: float) -> str:
    """What clipping and fewer steps cost in bits per character, and what noise costs beyond; empty without both.

    Args:
        figures: `beside` of runs with the same seeds: seeds differ by as much as noise may cost.
        epsilon: The private run's ε.
    """
    found = figures[(figures["arm"] == "run") & (figures["metric"] == BITS)].set_index("model")
    if not {beside.PRIVATE, beside.NOISELESS, beside.PLAIN} <= set(found.index):
        return ""
    rows, seeds = found["value"], int(found["seeds"].max())
    trained, noise = rows[beside.NOISELESS] - rows[beside.PLAIN], rows[beside.PRIVATE] - rows[beside.NOISELESS]
    costs, more = ("cost", " more") if trained >= 0 else ("save", "")  # clipping may help against overfitting
    return (
        f"In bits per character, clipping, larger batches and fewer steps {costs} **{abs(trained):.2f}**, and the "
        f"noise of ε = {setting_text(epsilon)} {'costs' if noise >= 0 else 'saves'} **{abs(noise):.2f}**"
        f"{more if noise >= 0 else ''} "
        f"({'the one seed' if seeds == 1 else f'mean of the {seeds} seeds'} with which all three were trained)."
    )


def _table(figures: pd.DataFrame, chosen: list[tuple[str, str]]) -> pd.DataFrame:
    rows = figures[figures["metric"].isin([metric for metric, _ in chosen])]
    return rows.assign(figure=rows["metric"].map(dict(chosen)))[
        ["model", "figure", "arm", "value", "low", "high", "seeds", "interval"]
    ]
