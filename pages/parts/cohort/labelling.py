"""Label 20 of your notes: what was missed, what was found by mistake, and the recall and precision that follow."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import streamlit as st

from core.corpus.tables import Corpus
from core.evaluation.detection.own_labels import MOST_LETTERS, LabelledNote, as_lines, on_labels, sampled
from core.evaluation.detection.phi_detection import ALL
from core.evaluation.wording import interval_text, percent
from core.phi.detector.engine import SHAPES
from core.phi.fields import DIRECT
from core.phi.spans import Place
from pages.parts.access import viewer
from pages.parts.common.data_table import data_table
from pages.parts.common.phi_text import field_name, fields_html, literal
from pages.parts.uploads.files import LABELS_OF

FIELDS = (*DIRECT, "clinician", "date", "hospital", "place", "organisation", "age", "number", "url", "ip")


@dataclass
class Labels:
    """A session's corrections by the number of the note: positions alone, so that no text outlives its upload."""

    wrong: dict[int, frozenset[Place]] = field(default_factory=dict)
    missed: dict[int, tuple[Place, ...]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    at: int = 0  # the note shown first after the last one was finished

    def on(self, notes: list[LabelledNote]) -> list[LabelledNote]:
        """The notes with their corrections."""
        return [
            replace(note, wrong=self.wrong.get(number, frozenset()), missed=self.missed.get(number, ()))
            for number, note in enumerate(notes)
        ]


def label_notes(corpus: Corpus) -> None:
    """One note at a time with its corrections, and the figures of the notes that are finished."""
    assert corpus.spec is not None  # an imported cohort has its spec
    digest = corpus.spec.digest()
    labels: Labels = st.session_state.setdefault(f"{LABELS_OF}{digest}", Labels())
    notes = labels.on(sampled(corpus.notes, digest))
    st.caption(
        f"Detector: {literal(corpus.spec.detector or SHAPES)}. Read each note, add what was missed, remove what is "
        "not an identifier, and finish the note. Your labels stay in this browser session."
    )
    number = st.pagination(len(notes), default=labels.at + 1, key=f"label_note-{digest}-{len(labels.done)}") - 1
    st.markdown(f"**Note {number + 1} of {len(notes)}**{', finished' if number in labels.done else ''}")
    _one_note(notes[number], number, labels, key=f"{digest}-{number}")
    st.button("Finish this note", type="primary", key="label_done", on_click=_finish, args=(labels, number, len(notes)))
    _figures([notes[one] for one in sorted(labels.done)], len(notes))


def _one_note(note: LabelledNote, number: int, labels: Labels, *, key: str) -> None:
    """The note with its marks, and what corrects them. `key` names cohort and note: no choice is carried over."""
    st.html(fields_html(note.text, [{"start": start, "end": end, "field": kind} for start, end, kind in note.labels]))
    left, right = st.columns(2)
    with left, st.form(f"label-missed-{key}", clear_on_submit=True, border=False):
        words = st.text_input(  # without a limit: the browser would drop a longer paste whole
            "Missed words", key=f"label_words-{key}", help="Paste them as they are in the note."
        )
        kind = st.selectbox("Kind", FIELDS, format_func=field_name, key=f"label_field-{key}")
        if st.form_submit_button("Add", icon=":material/add:"):
            _add(note, number, labels, words, kind)
    with right:
        wrong = _chosen("Found by mistake", note, note.found, note.wrong, f"label_wrong-{key}")
        missed = _chosen("Added by you", note, note.missed, note.missed, f"label_added-{key}-{len(note.missed)}")
    if (frozenset(wrong), tuple(missed)) != (note.wrong, note.missed):
        labels.wrong[number], labels.missed[number] = frozenset(wrong), tuple(missed)
        st.rerun()


def _chosen(
    label: str, note: LabelledNote, places: tuple[Place, ...], chosen: frozenset[Place] | tuple[Place, ...], key: str
) -> list[Place]:
    """A choice of some places of a note, by number, so that equal words stay apart."""
    numbers = st.multiselect(
        label,
        range(len(places)),
        [number for number, place in enumerate(places) if place in chosen],
        format_func=lambda number: _shown(note, places[number]),
        key=key,
        placeholder="none",
    )
    return [places[number] for number in sorted(numbers)]


def _add(note: LabelledNote, number: int, labels: Labels, words: str, kind: str) -> None:
    if len(words) > MOST_LETTERS:
        st.error(f"Add at most {MOST_LETTERS} characters at once.", icon=":material/error:")
        return
    places = note.places_of(words, kind)
    if not places:
        st.error("These words are not in the note, or are marked already. Paste them exactly.", icon=":material/error:")
        return
    labels.missed[number] = tuple(sorted([*note.missed, *places]))
    st.rerun()


def _finish(labels: Labels, number: int, notes: int) -> None:
    labels.done.add(number)
    labels.at = next((one for one in range(notes) if one not in labels.done), number)


def _figures(finished: list[LabelledNote], drawn: int) -> None:
    if not finished:
        st.info(f"Finish notes to get the recall on them: 0 of {drawn} so far.", icon=":material/edit_note:")
        return
    table = on_labels(finished)
    whole = table.set_index("field").loc[ALL]
    with st.container(horizontal=True):
        for name, of in (("recall", "labelled"), ("precision", "found")):
            some = whole[of] > 0
            interval = interval_text(whole[f"{name}_low"], whole[f"{name}_high"]) if some else "nothing to count"
            st.metric(
                f"{name.capitalize()} on your notes",
                percent(whole[name]) if some else "–",
                interval,
                delta_color="off",
                delta_arrow="off",
                border=True,
            )
    st.caption(
        f"From {len(finished)} of {drawn} notes: {whole['labelled']:.0f} identifiers, {whole['found']:.0f} found. "
        "Identifiers in one note resemble each other, so the true uncertainty is larger than the interval."
    )
    data_table(table, name="own-labels", label="Recall and precision by kind")
    st.download_button(
        "Download your labels",
        data=viewer.later(lambda: as_lines(finished)),
        file_name="labels.jsonl",
        mime="application/jsonl",
        icon=":material/download:",
        on_click="ignore",
        key="label_download",
        help="The notes' full texts with their labels, for “bench detector --labelled”.",
    )


def _shown(note: LabelledNote, place: Place) -> str:
    start, end, kind = place
    return f"{note.text[start:end][:40]} ({field_name(kind)})"
