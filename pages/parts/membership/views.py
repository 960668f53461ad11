"""The views of the Membership page, each drawn for the chosen runs (name → run) and attacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.attacks.membership.decision import OWN_THRESHOLDS
from core.attacks.membership.shadow_models import ACCUSED as SHADOWS_ACCUSE
from core.evaluation.membership.curve import Ceiling, caught, ceiling_for, steps
from core.evaluation.membership.lira_stability import stability_sentences
from core.evaluation.membership.overlap import Overlap
from core.evaluation.membership.summary import ROC_RATES
from core.evaluation.membership.units import Units
from core.evaluation.wording import interval_text, percent, set_percent, with_separators
from core.runs.run import Run
from pages.parts.access import gate
from pages.parts.common import chart_style, guess
from pages.parts.common.data_table import csv_button, data_table
from pages.parts.common.public_noise import caption_public_noise
from pages.parts.common.query_params import KEEP
from pages.parts.membership import charts as membership_charts
from pages.parts.membership import data
from pages.parts.membership.methods import HOW
from pages.parts.membership.sentences import (
    UNITS,
    by_length,
    caught_sentence,
    evaluated_sentence,
    fewer_accused,
    for_a_patient,
    for_an_exchange,
    leakage_sentence,
    partial_sentence,
    population_sentence,
    roc_sentence,
    sides,
    strongest_sentence,
    surest_sentence,
)

TOO_FEW = (
    "Too few notes of this kind: both members and held-out patients are needed. Choose “all” under Notes, or another "
    "attack."
)
OVERLAP = "Who is caught"
CAUGHT = "Members caught when 10\u00a0%, 1\u00a0% or 0.1\u00a0% of those held out are accused"
ALWAYS = 0.90  # share of the shadow models that read a patient: caught whatever the training
SHARES = {"10\u00a0%": 0.10, "5\u00a0%": 0.05, "1\u00a0%": 0.01}  # of the held-out patients that each attack may accuse


@dataclass(frozen=True)
class Choice:
    """The user's choice: the runs by name, the attacks, the unit, the length of notes, and where more can be chosen."""

    runs: dict[str, Run]
    attacks: Sequence[str]
    level: str
    length: str
    knobs: DeltaGenerator  # where a view puts its own settings

    @property
    def unit(self) -> str:
        """What is evaluated, in the words of `UNITS`: the level; of notes, also their length if it was chosen."""
        return self.level if self.length == "all" or self.level != "sample" else f"{self.length} {self.level}"

    def units(self, run: Run, attack: str) -> Units | None:
        """The scored units of one attack on one run; None if it was not run or has no such notes."""
        return data.units_of(run, attack, self.level, self.length)


def how(view: str, more: str = "") -> None:
    """The fold that says how a chart is computed, and `more` about the one that is drawn."""
    with st.expander("How is this computed?"):
        st.markdown(HOW[view])
        if more:
            st.markdown(more)


def roc_view(choice: Choice) -> None:
    """ROC curves of the chosen runs and attacks, with bands, and the ceiling of each guarantee."""
    curves = {
        (number, name, attack): table
        for number, (name, run) in enumerate(choice.runs.items())
        for attack in choice.attacks
        if (table := _curve(choice, run, attack)) is not None
    }
    if not curves:
        st.info(TOO_FEW, icon=":material/group_off:")
        return
    (_, name, attack), first = next(iter(curves.items()))
    thing = UNITS[choice.unit][1]
    answer = guess.first(
        f"An attacker may wrongly accuse 10 of 100 {thing} that were not in the training data. Of 100 {thing} in the "
        f"training data, how many does the attack “{attack}” catch for the model “{name}”?",
        ["10, as by random guessing", "about 20", "about 40", "80 or more"],
        key=f"roc-{choice.runs[name].id}-{attack}-{choice.unit}",
    )
    if answer is None:
        return
    same = {of: table for (_, of, by), table in curves.items() if by == attack}
    answered = roc_sentence(same, attack, choice.unit) + by_length(choice.level, choice.length)
    guess.show_answer(answer, answered)
    axes = choice.knobs.segmented_control(
        "Axes", ["linear", "log"], default="linear", required=True, key="axes", **KEEP
    )
    log = axes == "log"
    ceilings = _ceilings(choice)
    drawn = {key: one for key, one in ceilings.items() if one.delta < 1}
    alt = f"ROC curves of {len(curves)} attacks: {', '.join(f'{name} by {attack}' for _, name, attack in curves)}."
    judged = {key: choice.units(choice.runs[key[1]], key[2]) for key in curves}
    corners = {key: steps(found) for key, found in judged.items() if found is not None}
    figure = membership_charts.roc(curves, corners, drawn, log=log)
    chart_style.show(figure, key="roc-chart", alt=alt)
    st.html(chart_style.legend_html(figure))
    _strongest(choice)
    rates = at_rates(choice)
    if fewer := fewer_accused(rates, name, attack, choice.unit):
        st.markdown(fewer)
    for (_, name), ceiling in ceilings.items():
        if ceiling.per_note:
            st.caption(
                f"“{name}” has an ε per note: the guarantee compares training with and without one note, all other "
                "notes unchanged. Here, all notes of a patient were in or out together, so a curve above the line "
                "does not contradict the guarantee. The audit on the Canaries page tests the guarantee, and says "
                "how large an ε it could contradict."
            )
        else:
            st.caption(for_an_exchange(name, ceiling))
        if ceiling.group > 1:
            st.markdown(for_a_patient(name, ceiling))
    caption_public_noise(choice.runs)
    data_table(
        pd.concat([table.assign(run=name, attack=attack) for (_, name, attack), table in curves.items()]),
        name="membership-roc",
    )
    data_table(rates, name="membership-at-rates", label=CAUGHT)
    notes = {name: data.units_of(run, attack, "sample", choice.length) for name, run in choice.runs.items()}
    known = {name: (found, choice.runs[name].note_cap) for name, found in notes.items() if found is not None}
    how("roc", evaluated_sentence(known, attack, choice.length))


def _strongest(choice: Choice) -> None:
    """The strongest attack on each model, chosen or not: the picture opens with a weak one, the loss."""
    sentences = []
    for name, run in choice.runs.items():
        found = _aucs(choice, run, sorted(data.attacks(run)))
        sentences.append(strongest_sentence(found[found["value"].notna()], name, choice.unit))
    if any(sentences):
        st.caption(" ".join([*filter(None, sentences), "Intervals allow for the choice; 0.5 is random guessing."]))


def _aucs(choice: Choice, run: Run, attacks: Sequence[str]) -> pd.DataFrame:
    """The AUC of these attacks on a run at the chosen level and length of notes."""
    table = data.figures(run, attacks)
    keep = (table["metric"] == "auc") & (table["level"] == choice.level) & (table["length"] == choice.length)
    return table[keep & (table["rule"] == "") & table["attack"].isin(attacks)]


def at_rates(choice: Choice) -> pd.DataFrame:
    """The most that each attack catches if 10 %, 1 % or 0.1 % may be accused, with the actual share accused.

    Columns: run, attack, may accuse, accuses, catches, low, high, note; NaN and a note if too few are held out.
    """
    rows = []
    for name, run in choice.runs.items():
        table = data.figures(run, choice.attacks)
        table = table[(table["level"] == choice.level) & (table["length"] == choice.length)]
        found = table.set_index(["attack", "rule", "metric"])
        for attack in choice.attacks:
            for rate in ROC_RATES:
                key = (attack, f"ROC {100 * rate:g} %")
                if (*key, "true_positive_rate") in found.index:
                    caught = found.loc[(*key, "true_positive_rate")]
                    wrong = (*key, "false_positive_rate")
                    accused = found.loc[wrong, "value"] if wrong in found.index else math.nan
                    ends = (caught["value"], caught["low"], caught["high"])
                    rows.append((name, attack, rate, accused, *ends, with_separators(caught["note"])))
    return pd.DataFrame(rows, columns=["run", "attack", "may accuse", "accuses", "catches", "low", "high", "note"])


def _curve(choice: Choice, run: Run, attack: str) -> pd.DataFrame | None:
    if choice.units(run, attack) is None:
        return None
    return data.roc_curve(run, attack, choice.level, choice.length)


def _ceilings(choice: Choice) -> dict[tuple[int, str], Ceiling]:
    """The ceiling from each private run's guarantee, by number and name of the run.

    Expensive attacks evaluate fewer patients. The ceiling is that of the patient with the most notes in any chosen
    attack, so it bounds every curve.
    """
    found = {}
    for number, (name, run) in enumerate(choice.runs.items()):
        judged = [one for attack in choice.attacks if (one := choice.units(run, attack)) is not None]
        if run.privacy is not None and judged:
            found[number, name] = ceiling_for(run.privacy, judged, choice.level)
    return found


def threshold_view(choice: Choice) -> None:
    """The scores of one attack on one run, with a movable threshold and its effect."""
    name = choice.knobs.selectbox("Model", list(choice.runs), key="histogram-run")
    attack = choice.knobs.selectbox("Attack", list(choice.attacks), key="histogram-attack")
    judged = choice.units(choice.runs[name], attack)
    if judged is None:
        st.info(
            f"“{name}” has no scores of “{attack}” for these notes. Choose another attack or other notes.",
            icon=":material/group_off:",
        )
        return
    members, others = sides(choice.unit)
    answer = guess.first(
        f"Is there a threshold that catches most {members} and accuses few {others}?",
        ["yes, a clear gap", "partly", "no"],
        key=f"line-{choice.runs[name].id}-{attack}-{choice.unit}",
    )
    if answer is None:
        return
    own = OWN_THRESHOLDS.get(attack, float(judged.mean_sums.sum() / judged.mean_counts.sum()))
    length = by_length(choice.level, choice.length)
    _movable(judged, own, choice.unit, length, f"{name}-{attack}-{choice.level}-{choice.length}")
    how("threshold")


@gate.fragment
def _movable(judged: Units, own: float, unit: str, length: str, key: str) -> None:
    """Slider, sentence and histogram: only these are redrawn when the threshold moves."""
    low, high = (float(end) for end in np.quantile(judged.score, [0.0, 1.0]))
    step = max((high - low) / 400, 1e-12)
    start = float(np.clip(own, low, high))
    threshold = st.slider("Threshold", low - step, high + step, start, step=step, key=f"threshold-{key}", format="%.4g")
    found = caught(judged, threshold)
    sentence = caught_sentence(found, unit)
    st.markdown(f"## {sentence}")
    alt = f"Histogram of the scores. {sentence}{length}"
    chart_style.show(membership_charts.histogram(judged, threshold), key=f"histogram-{key}", alt=alt)
    st.markdown(leakage_sentence(found, unit) + population_sentence(judged, unit) + length)
    frame = pd.DataFrame({"member": judged.member, "score": judged.score, "called a member": judged.score >= threshold})
    data_table(frame, name="membership-scores")


def attacks_view(choice: Choice) -> None:
    """AUC of every attack on the chosen runs."""
    tables = {}
    for name, run in choice.runs.items():
        table = _aucs(choice, run, choice.attacks)
        tables[name] = table.assign(access=table["attack"].map(data.access))
    found = pd.concat([table.assign(run=name) for name, table in tables.items()], ignore_index=True)
    if found.empty:
        st.info(TOO_FEW, icon=":material/group_off:")
        return
    order = found.groupby("attack")["value"].max().sort_values(ascending=False).index.tolist()
    offered = [attack for attack in choice.attacks if attack in order[:6]]  # not in the order of the answer
    ids = "-".join(run.id for run in choice.runs.values())
    answer = guess.first("Which attack tells members from others best?", offered, key=f"attacks-{ids}-{choice.level}")
    if answer is None:
        return
    surest = surest_sentence(found)
    guess.show_answer(answer, surest)
    alt = f"AUC of {len(order)} attacks on {len(tables)} models. {surest}"
    chart_style.show(membership_charts.attacks(tables, order), key="attacks-chart", alt=alt)
    shown = found[["run", "attack", "access", "value", "low", "high", "n"]].rename(columns={"value": "AUC"})
    data_table(shown, name="membership-attacks")
    with st.expander("What does each attack do?"):
        st.dataframe(data.described(order), hide_index=True, alt="Each attack in one sentence, and what it needs")
    how("attacks")


def overlap_view(choice: Choice) -> None:
    """Which patients of one run each attack catches, beside those that it accuses by mistake."""
    names = list(choice.runs)
    name = names[0] if len(names) == 1 else choice.knobs.selectbox("Model", names, key="overlap-run")
    run = choice.runs[name]
    share = choice.knobs.segmented_control(
        "Held-out patients accused by each attack",
        list(SHARES),
        default=next(iter(SHARES)),
        required=True,
        key="accused",
    )
    accused = SHARES[share]
    possible = [attack for attack in choice.attacks if attack in data.complete_attacks(run)]
    found = data.overlap_of(run, possible, accused) if possible else None
    if found is None:
        st.info(
            f"None of these attacks scored every patient of “{name}”. Choose others, or run the full audit.",
            icon=":material/group_off:",
        )
        return
    many = f"at least one of {len(possible)} attacks" if len(possible) > 1 else f"the attack “{possible[0]}”"
    answer = guess.first(
        f"Each attack may wrongly accuse {share} of the patients who were not in the training data. Of 100 "
        f"patients in the training data of “{name}”, how many does {many} catch?",
        ["about 10", "about 30", "about 60", "90 or more"],
        key=f"overlap-{run.id}-{accused}-{'-'.join(possible)}",
    )
    if answer is None:
        return
    some, every = (_by_at_least(found, least) for least in (1, len(possible)))
    together = (
        f" All {len(possible)} accuse {every}. The intervals are for attacks that each accuse {share} of the held-out "
        "patients."
        if len(possible) > 1
        else f" The threshold was set so that it accuses at most {share} of the held-out patients."
    )
    guess.show_answer(answer, f"{many[0].upper()}{many[1:]} accuses {some}.{together}")
    order = sorted(possible, key=lambda attack: -int(found.group(True)[attack].sum()))
    alt = f"Patients that {len(order)} attacks accuse on “{name}”: {some}."
    chart_style.show(membership_charts.overlap(found, order), key="overlap-chart", alt=alt)
    st.caption(
        "A column is a patient; full colour: this attack accuses them. The number after an attack counts the members "
        "it catches. Patients that most attacks accuse come first. Held-out patients show how often attacks agree by "
        f"mistake.{partial_sentence(data.partial_attacks(run))}"
    )
    table = found.accused.assign(group=np.where(found.member, "member", "held out"), attacks=found.accused.sum(axis=1))
    caught_by_models = data.shadow_patients(run)
    table = _with_shadows(table.sort_values("attacks", ascending=False), caught_by_models, name)
    data_table(table.reset_index(), name="membership-overlap")
    if len(caught_by_models):
        _stability(run)
    how("overlap")


def _stability(run: Run) -> None:
    """A fold: how much LiRA depends on the shadow models and on the training's seed, computed on request."""
    with st.expander("Would LiRA find the same with other shadow models, or another seed?"):
        asked = f"stability-{run.id}"
        if st.button("Compute from the stored shadow models", icon=":material/groups:", key="lira-stability"):
            st.session_state[asked] = True
        found = data.stability_of(run) if st.session_state.get(asked) else None
        if found is None:
            return
        st.markdown("\n".join(f"- {sentence}" for sentence in stability_sentences(found)))
        st.caption(
            "Ranges are the middle 95\u00a0% of the subsets or halvings; “low” and “high” of a seed are its 95\u00a0% "
            f"interval over patients. “caught”: members caught if {set_percent(SHADOWS_ACCUSE)} of the held-out "
            "patients may be accused."
        )
        for frame, name, title in (
            (found.by_number, "number", "By number of shadow models"),
            (found.by_halves, "halves", "Rank correlation of patients’ scores by two disjoint halves of the models"),
            (found.by_seed, "seed", "By training seed"),
        ):
            st.markdown(f"**{title}**")
            st.dataframe(frame, hide_index=True, alt=title)
            csv_button(frame, name=f"lira-by-{name}")


def _by_at_least(found: Overlap, least: int) -> str:
    """`187 of 301 members (62 %, interval) and 41 of 129 held-out patients (…)`.

    One attack accuses as many held-out patients as were chosen, so their share has no interval.
    """
    parts = []
    for member, words in ((True, "members"), (False, "held-out patients")):
        said, share = found.at_least(least, member=member)
        ends = f", {interval_text(share.low, share.high)}" if member or found.accused.shape[1] > 1 else ""
        parts.append(f"{said:,} of {int((found.member == member).sum()):,} {words} ({percent(share.value)}{ends})")
    return " and ".join(parts)


def _with_shadows(table: pd.DataFrame, shadows: pd.DataFrame, name: str) -> pd.DataFrame:
    """The table with how often LiRA catches each patient over all shadow models, and a sentence about that."""
    if shadows.empty:
        return table
    by_patient = shadows.set_index("patient_id")
    models = int((by_patient["read"] + by_patient["unread"]).max())
    share = by_patient["caught"] / by_patient["read"]
    most = share[share >= ALWAYS]
    st.markdown(
        f"LiRA has {models} models like “{name}”, trained on other subsets of these patients. If each may accuse "
        f"{set_percent(SHADOWS_ACCUSE)} of the patients that it did not read, {len(most):,} of {len(share):,} patients "
        f"are caught by at least {set_percent(ALWAYS)} of the models that read them, and "
        f"{int((share == 0).sum()):,} by none."
    )
    return table.join(by_patient.rename(columns=lambda column: f"lira, models: {column}"))


VIEWS: dict[str, Callable[[Choice], None]] = {
    "ROC": roc_view,
    "Threshold": threshold_view,
    "All attacks": attacks_view,
    OVERLAP: overlap_view,
}
