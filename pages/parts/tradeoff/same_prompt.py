"""The same prompt, each model: one stored attempt of the run at the slider, beside that of its controls."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from core.attacks.prompts import PROMPTS
from core.common.formatting import setting_text
from core.evaluation.sweep import beside
from core.evaluation.wording import interval_text, percent
from core.runs.run import Run
from pages.parts.common import phi_text
from pages.parts.common.query_params import KEEP
from pages.parts.playground import stored_attempts
from pages.parts.session import owner
from pages.parts.tradeoff.models import Models

NOT_KEPT = "This run keeps its figures only: its texts were not stored."


def show(models: Sequence[tuple[str, Run | None]]) -> None:
    """Draw the pickers of the prompt and of the text, and the stored text of each model side by side.

    Args:
        models: each model's heading, and the run whose text is shown; None if it was not trained.
    """
    prompt, attempt = _choose([run for _, run in models if run is not None])
    for column, (heading, run) in zip(st.columns(len(models), gap="medium"), models, strict=True):
        with column, st.container(gap="xxsmall"):
            st.markdown(f"**{heading}**")
            _text(run, prompt, attempt)


def shown_at(epsilon: float, models: Models) -> list[tuple[str, Run | None]]:
    """What stands side by side at ε: the public base, the private run, its control without noise, the unconstrained.

    All are of one seed, the first one that the private runs (at ∞: the plain runs) have.
    """
    private, noiseless, plain, base = models
    shown: list[tuple[str, Run | None]] = [(beside.BASE.capitalize(), base)]
    chosen = min(private, key=_seed, default=None)
    if private:
        shown.append((f"ε = {setting_text(epsilon)}", chosen))
    same = [run for run in noiseless if chosen is not None and _seed(run) == _seed(chosen)]
    if same:
        shown.append((beside.NOISELESS.capitalize(), same[0]))
    same = [run for run in plain if chosen is not None and _seed(run) == _seed(chosen)] or sorted(plain, key=_seed)
    shown.append(("Without privacy", same[0] if same else None))
    return shown


def _seed(run: Run) -> int:
    return run.spec.training.seed


def _choose(runs: Sequence[Run]) -> tuple[int, int]:
    """The number of the prompt and of the attempt, in one line. A run with figures only keeps fewer attempts."""
    with st.container(horizontal=True, vertical_alignment="center", key="same-prompt"):
        st.markdown("**The same prompt, each model**", width="content")
        texts = {prompt.text: prompt.prompt_id for prompt in PROMPTS}
        chosen = st.selectbox("Prompt", list(texts), key="prompt", label_visibility="collapsed", width=270, **KEEP)
        st.markdown("text", width="content")
        attempt = st.number_input("Text", 1, 10_000, key="attempt", label_visibility="collapsed", width=130, **KEEP)
        root = str(owner.workspace().root)
        stored = [stored_attempts.of_prompt(root, run.id, texts[chosen], run)[0] for run in runs]
        kept = [0 if rows is None else len(rows) for rows in stored]
        st.markdown(f"of {max(kept, default=0):,}", width="content")
    return texts[chosen], int(attempt)


def _text(run: Run | None, prompt: int, attempt: int) -> None:
    if run is None:
        st.caption("Not trained here.")
        return
    rows, marks = stored_attempts.of_prompt(str(owner.workspace().root), run.id, prompt, run)
    if rows is None:
        st.caption(NOT_KEPT)
        return
    if attempt > len(rows):
        st.caption(f"This run keeps {len(rows):,} texts of this prompt.")
        return
    row = rows.iloc[attempt - 1]
    st.html(phi_text.leaks_html(row["text"], marks.get(int(row["generation_id"]), ()), prompt=row["prompt"]))
    said = leaking_texts(run)
    if said:
        st.caption(said)


def leaking_texts(run: Run) -> str:
    """How many of the run's stored texts hold a direct identifier of a member, beside the held-out control."""
    rows = run.metrics
    rows = rows[(rows["metric"] == "attempts_with_leak") & rows["value"].notna()].set_index("arm")
    if "run" not in rows.index:
        return ""
    now = rows.loc["run"]
    control = f"; held-out control {percent(rows.loc['heldout', 'value'])}" if "heldout" in rows.index else ""
    limits = interval_text(now["low"], now["high"])
    leaks, of = round(now["value"] * now["n"]), int(now["n"])
    return f"{leaks:,} of {of:,} texts leak an identifier: {percent(now['value'])} ({limits}{control})."
