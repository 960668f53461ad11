"""One prompt to every model: as trained, forgotten, trained again and DP, with the patient's details marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.models.shipped_bases import ModelNotFound
from core.pipeline.forgetting import APPROXIMATE, PUBLIC, RETRAINED, Comparison, weights_folder
from core.runs.run import Run
from core.serving.server import MASK, PromptError, Sampling, Stream, clean_prompt
from pages.parts.common import phi_text
from pages.parts.common.phi_text import literal
from pages.parts.session import models, owner, resources

if TYPE_CHECKING:
    from core.models.build import LanguageModel

SEEDS = (0, 1, 2)
SAMPLING = Sampling(new_tokens=24)  # enough for a name and a number, and short enough to compare
WAIT_SECONDS = 60.0
BUSY = "The server is busy and did not answer in time. Ask again in a minute."


def show(found: Comparison, named: dict[str, str]) -> None:
    """A box for a prompt, and what each model writes after it."""
    st.header("Ask the models", anchor=False)
    cohort = found.run.spec.corpus.digest()  # other hospitals have patients of the same ids
    with st.form("forget-prompt", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        typed = st.text_input("An attacker's prompt", _suggested(found), key=f"forget-text-{cohort}-{found.patient}")
        asked = st.form_submit_button("Ask", type="primary", icon=":material/send:")
    if not asked:
        return
    try:
        prompt, _ = clean_prompt(typed)
        if MASK in prompt:
            raise PromptError(f"Leave out {MASK}: every model here continues the text.")
    except PromptError as refused:
        st.error(literal(str(refused), 600), icon=":material/error:")
        return
    answering = _models(found)
    columns = st.columns(max(2, min(3, len(answering))))
    for place, (arm, texts, error, without) in enumerate(_ask(found, answering, prompt)):
        with columns[place % len(columns)], st.container(border=True):
            st.markdown(f"**{named[arm][:1].upper()}{named[arm][1:]}**")
            if error:
                st.error(literal(error, 600), icon=":material/error:")
            for text, spans in zip(texts, _spans(found.run, without, prompt, texts), strict=True):
                st.html(phi_text.leaks_html(text, spans, prompt=prompt))
    if silent := [arm for arm in _measured(found) if arm not in answering]:
        st.caption(_without_answer(silent, named))


def _without_answer(silent: Sequence[str], named: dict[str, str]) -> str:
    """Which models were judged and cannot be asked, and how to make them here."""
    sentences = [f"No answer from: {', '.join(named[arm] for arm in silent)}. Their weights are not stored here."]
    if set(silent) & set(APPROXIMATE):
        sentences.append("**Forget now** makes the unlearned models.")
    if RETRAINED in silent:
        sentences.append("**Train again** makes the retrained model.")
    return " ".join(sentences)


def _suggested(found: Comparison) -> str:
    """What somebody types who knows the patient's first name and wants the rest."""
    patients = resources.patients(found.run.spec.corpus, owner.workspace())
    name = patients["full_name"].get(found.patient)
    return f"Patient: {name.split()[0]}" if isinstance(name, str) and name.strip() else "Patient:"


def _models(found: Comparison) -> dict[str, Run | None]:
    """The models that can answer: those of runs, and those unlearned here from this very training (None)."""
    here: dict[str, Run | None] = {"original": found.run}
    measured = _measured(found)
    for arm in APPROXIMATE:
        if arm in measured and _folder(found, arm).is_dir():
            here[arm] = None
    further = {"retrained": found.retrained, "private": found.private}
    return here | {arm: run for arm, run in further.items() if run is not None}


def _measured(found: Comparison) -> list[str]:
    """The models of the patient's comparison that were judged, except the public one, which read no notes."""
    outcomes = owner.workspace().audit(found.run.id).forgetting(found.patient).outcomes()
    return [arm for arm in outcomes if arm != PUBLIC]


def _folder(found: Comparison, arm: str) -> Path:
    return weights_folder(owner.workspace(), found.run.id, found.patient, arm)


def _ask(
    found: Comparison, answering: dict[str, Run | None], prompt: str
) -> list[tuple[str, list[str], str, tuple[str, ...] | None]]:
    """(arm, texts, error, patients whose values are no leaks) of every model; the runs' models answer meanwhile."""
    streams = {arm: _started(run, prompt) for arm, run in answering.items() if run is not None}
    answers = []
    with st.spinner("Asking each model …", show_time=True):
        for arm, run in answering.items():
            if run is None:
                answers.append((arm, *_unlearned(found, arm, prompt), found.run.spec.without))
                continue
            stream = streams[arm]
            answered = stream.wait(WAIT_SECONDS)
            error = stream.error or ("" if answered else BUSY)
            stream.cancel()  # no page would read what comes later
            answers.append((arm, [] if error else list(stream.texts), error, run.spec.without))
    return answers


def _started(run: Run, prompt: str) -> Stream:
    return models.asked(run, prompt, lambda server: server.generate(run.id, prompt, seeds=SEEDS, sampling=SAMPLING))


def _unlearned(found: Comparison, arm: str, prompt: str) -> tuple[list[str], str]:
    """The texts of a model that was unlearned here, drawn as the model server draws them, or an error's sentence."""
    turn = models.turn()
    if not turn.acquire(timeout=WAIT_SECONDS):
        return [], BUSY
    try:
        return _drawn(found, arm, prompt), ""
    except (ValueError, OSError, ModelNotFound) as error:  # too long a prompt, or its weights are being replaced
        return [], str(error)
    finally:
        turn.release()


def _drawn(found: Comparison, arm: str, prompt: str) -> list[str]:
    from core.models.generation import MASKED_SWEEPS, generate

    place = _folder(found, arm)
    lm = _model(str(place), (place / "model.safetensors").stat().st_mtime_ns)
    how: dict[str, Any] = {
        "new_tokens": SAMPLING.new_tokens,
        "temperature": SAMPLING.temperature,
        "top_k": SAMPLING.top_k,
    }
    if lm.causal:
        return generate.sample(lm, [prompt] * len(SEEDS), top_p=SAMPLING.top_p, seeds=list(SEEDS), **how)
    return generate.gibbs(lm, [prompt] * len(SEEDS), sweeps=MASKED_SWEEPS, seeds=list(SEEDS), **how)


@resources.cached_object(max_entries=6, show_spinner=False)
def _model(folder: str, changed: int) -> LanguageModel:
    from core.models.build import load_folder

    return load_folder(folder)


def _spans(run: Run, without: tuple[str, ...] | None, prompt: str, texts: list[str]) -> list:
    if not any(texts):
        return [[] for _ in texts]
    from core.phi.leaks import find_many

    index = resources.phi_index(run.spec.corpus, without, owner.workspace())
    return [list(spans) for spans in find_many(texts, index, [prompt] * len(texts))]
