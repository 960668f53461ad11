"""Why did a model write this? A clicked mark opens the training notes that hold it, and its chance in each model."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from core.evaluation.wording import chance_text
from core.runs.run import Run, RunBroken, RunNotFound
from core.serving.streams import without_controls
from pages.parts.access import gate
from pages.parts.common import mark_clicks, phi_text
from pages.parts.common.phi_text import literal
from pages.parts.playground import inspection
from pages.parts.playground.inspection import Judged
from pages.parts.playground.side_by_side import Answer, text_key
from pages.parts.session import owner, resources

if TYPE_CHECKING:
    from core.corpus.passages import Passage
    from core.phi.spans import Span
    from pages.parts.playground.stored_attempts import Mark

ASKED = "why_asked"  # in the session's state: the key of a text and the first character of a mark
NOTES_SHOWN = 3
AROUND = 260  # characters of a note shown before and after the shared words


@dataclass(frozen=True)
class Written:
    """A marked span of a text that a model wrote in this session."""

    run_id: str
    prompt: str
    text: str
    span: Span | Mark

    @property
    def value(self) -> str:
        """The marked characters."""
        return self.text[self.span.start : self.span.end]


def ask(text_of: str, start: int) -> None:
    """Open the explanation at the next run of the script: the callback of a button."""
    st.session_state[ASKED] = (text_of, start)


def open_asked(samples: Sequence[tuple[str, Answer]], pair: Sequence[Run]) -> None:
    """Open the dialog if a mark was clicked or a button asked for it.

    Args:
        samples: every sample of the session with its prompt, newest first.
        pair: the models on the page; those of the same kind as the writer are compared with it.
    """
    clicked = mark_clicks.clicked(key="marks", told=told(samples, pair))
    asked = st.session_state.pop(ASKED, None) or clicked
    written = None if asked is None else find(samples, *asked)
    if written is None:
        return
    title = f"Why did it write “{phi_text.visible(written.value)}”?"
    st.dialog(literal(title), width="large", icon=":material/troubleshoot:")(gate.drawn_for_admitted(_explain))(
        written, pair
    )


def told(samples: Sequence[tuple[str, Answer]], pair: Sequence[Run]) -> str:
    """How many samples of the newest prompt leak in each model on the page, in words; empty before the first."""
    if not samples:
        return ""
    newest = samples[0][0]
    lines = []
    for side, run in zip(("Left", "Right"), pair, strict=False):
        own = []
        for prompt, answer in samples:
            if prompt != newest:
                break
            if answer.run_id == run.id:
                own.append(answer)
        leaks = sum(answer.samples_with_leak for answer in own)
        if own and not own[0].judged:
            lines.append(f"{side} model: leaks cannot be found, since no identifier of its patients is known.")
        elif own:
            lines.append(f"{side} model: {leaks} of {sum(len(answer.texts) for answer in own)} texts leak.")
    return " ".join(lines)


def find(samples: Sequence[tuple[str, Answer]], key: str, start: int) -> Written | None:
    """The span that begins at this character of the text with this key; None if the session has no such text."""
    for prompt, answer in samples:
        for text, spans in zip(answer.texts, answer.spans, strict=True):
            if text_key(answer.run_id, text) == key:
                span = next((one for one in spans if one.start == start), None)
                return None if span is None else Written(answer.run_id, prompt, text, span)
    return None


def _explain(written: Written, pair: Sequence[Run]) -> None:
    run = next((one for one in pair if one.id == written.run_id), None)  # it may not have been audited yet
    try:
        run = run or owner.workspace().run(written.run_id)
    except (RunNotFound, RunBroken):
        st.info("The model that wrote this is no longer here, so its notes cannot be looked up.")
        return
    before = without_controls(written.prompt + written.text[: written.span.start])  # as the server reads it
    value, after = without_controls(written.value), without_controls(written.text[written.span.end :])
    whole, start, end = before + value + after, len(before), len(before) + len(value)
    again = inspection.never_read(run, written.span.patient_ids)
    runs = inspection.with_public([run, *again, *pair])
    streams = inspection.start(runs, whole)
    with st.spinner("Looking for it in the training notes …", show_time=True):
        own = len(without_controls(written.prompt))  # the user's words say nothing about the model
        found = _passages(whole[own:], start - own, end - own, run)
    source, tokens = st.tabs(["Where it comes from", "Token by token"])
    with source:
        st.markdown(source_sentence(written, found, run))
        chances = st.empty()
        _draw_notes(found, run)
    with st.spinner("Asking each model …", show_time=True):
        judged = inspection.finish(runs, streams)
    if judged[0].error:
        chances.error(literal(judged[0].error, 600), icon=":material/error:")
        return
    judged = [one for one in judged if not one.error]
    with chances.container():
        st.markdown(chance_sentence(written.value, judged, start, end))
        st.html(chances_html(whole, judged, start, end))
        st.caption("These are the models' own chances. Sampling also applies a temperature and leaves out rare tokens.")
    with tokens:
        inspection.draw_tokens(whole, judged, at=start, key="why-tokens")


def _passages(whole: str, start: int, end: int, run: Run) -> list[Passage]:
    from core.corpus.passages import passages

    return passages(whole, start, end, resources.training_notes(run))


def source_sentence(written: Written, found: Sequence[Passage], run: Run) -> str:
    """How often the value appears in which patients' notes, and the longest run of words that is there too."""
    value = f"“{literal(written.value)}”"
    if run.spec.is_base:
        return f"The public model was trained on none of these notes, so {value} comes from none of them."
    if not found:
        other = " The patient's notes spell it differently." if "leak" in written.span.kind else ""
        return f"{value} appears in **none** of the training notes in this spelling.{other}"
    times, notes = sum(one.times for one in found), len(found)
    patients = list(dict.fromkeys(one.patient_id for one in found))
    whose = f"patient {literal(patients[0])}" if len(patients) == 1 else f"{len(patients):,} patients"
    often = "once" if times == 1 else f"**{times:,} times**"
    where = "in one note" if notes == 1 else f"in {notes:,} notes"
    epochs = run.spec.training.epochs
    about = "about " * (run.spec.privacy.private or run.spec.training.clip_norm is not None)  # drawn by chance
    read = f"{about}once" if epochs == 1 else f"{about}{epochs:,} times{'' if notes == 1 else ' each'}"
    most = max(one.words for one in found)
    shared = (
        f" The longest run of words that its text shares with one of them is **{most:,} words**." if most > 1 else ""
    )
    note = "this note" if notes == 1 else "these notes"
    return f"{value} appears {often} in the training notes, {where} of {whose}. The model read {note} {read}.{shared}"


def chance_sentence(value: str, judged: Sequence[Judged], start: int, end: int) -> str:
    """The chance of the value at its place, in each model."""
    from core.models.token_view import log_chance

    first, *others = ((one.name, chance_text(math.exp(log_chance(one.views, start, end)))) for one in judged)
    around = "before it" if judged[0].run.spec.model.kind == "gpt2" else "around it"
    said = f"Given the text {around}, this model ({literal(first[0])}) writes “{literal(value)}” with a chance of "
    said += f"**{first[1]}**"
    if others:
        said += ". For comparison: " + "; ".join(f"{literal(name)} **{chance}**" for name, chance in others)
    return f"{said}."


def chances_html(text: str, judged: Sequence[Judged], start: int, end: int) -> str:
    """A table of the value's tokens: their chances in each model, and the chance of all of them together."""
    from core.models.token_view import log_chance

    own = [[view for view in one.views if view.start < end and start < view.end] for one in judged]
    cut = [(view.start, view.end) for view in own[0]]
    head = "".join(f"<th>{html.escape(phi_text.visible(text[first:last]))}</th>" for first, last in cut)
    rows = []
    for one, views in zip(judged, own, strict=True):
        cells = f'<td colspan="{len(cut)}">other tokens</td>'
        if [(view.start, view.end) for view in views] == cut:
            cells = "".join(_cell(view.log_p) for view in views)
        rows.append(f"<tr><th>{html.escape(one.name)}</th>{cells}{_cell(log_chance(one.views, start, end))}</tr>")
    table = f'<table class="chances"><tr><td></td>{head}<th>together</th></tr>{"".join(rows)}</table>'
    return f'<div class="scrolled">{table}</div>'


def _cell(log_p: float) -> str:
    """A chance, the darker the likelier."""
    chance = 0.0 if math.isnan(log_p) else math.exp(log_p)
    return f'<td style="--chance:{chance:.3f}">{html.escape(chance_text(chance))}</td>'


def _draw_notes(found: Sequence[Passage], run: Run) -> None:
    """The notes that share most with the text, those words marked."""
    if not found:
        return
    notes = resources.training_notes(run).set_index("note_id")
    for number, one in enumerate(found[:NOTES_SHOWN]):
        note = notes.loc[one.note_id]
        words = "1 word" if one.words == 1 else f"{one.words:,} words"
        title = f"Patient {literal(one.patient_id)}, {literal(str(note['note_type']))}: {words} in a row"
        with st.expander(title, expanded=number == 0):
            left, right = max(0, one.start - AROUND), min(len(note["text"]), one.end + AROUND)
            part = ("… " if left else "") + note["text"][left:right] + (" …" if right < len(note["text"]) else "")
            moved = 2 * bool(left) - left
            st.html(phi_text.shared_html(part, one.start + moved, one.end + moved))
    if len(found) > NOTES_SHOWN:
        st.caption(f"And {len(found) - NOTES_SHOWN:,} more notes.")
