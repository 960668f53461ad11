"""Choosing or designing a cohort: the same widgets, and the same choice, on every page and in the link."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import streamlit as st
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from core.common.refusals import out_of_range, reason
from core.evaluation.wording import percent
from core.spec import CORPUS_PRESETS, OPENING, CorpusSpec
from pages.parts.common.query_params import KEEP
from pages.parts.session import owner
from pages.parts.uploads import form

LIVE_NOTES = 60_000  # a few seconds; a larger cohort is built from the command line
PRESETS = {
    **{"classroom": "classroom", "classroom-12k": "about 12,000 notes", "classroom-48k": "about 48,000 notes"},
    **{"classroom-audit": "audit of ε", "study": "study", "mimic-scale": "MIMIC scale", "smoke": "tiny"},
    **{"own": "custom", "brought": "my notes"},
}
LENGTHS = {"full": "full notes", "brief": "two sentences each"}
COPIES = [8, 16, 64]
_SET = "cohort_set"  # in the session, for one run: the cohort was set by `ask_for_notes`
VARIANTS = {
    "regular": "notes as written",
    "name-insertion": "the patient's name before every note",
    "template-only": "one sentence: name and condition",
}


def choose_cohort() -> CorpusSpec | None:
    """The widgets that choose or design a cohort, the same on every page and in the link.

    Returns:
        The cohort; None if there is nothing to show yet, because an error was shown or no notes were uploaded
        (`asks_for_notes`).
    """
    name = st.segmented_control(
        "Cohort",
        list(PRESETS),
        # A value that was set in this run allows no start value. Later the control needs one, which Back returns to.
        default=None if st.session_state.pop(_SET, False) else OPENING,
        required=True,
        format_func=PRESETS.__getitem__,
        key="cohort",
        bind="query-params",
        help="A preset, a custom hospital (the same settings always give the same patients), or notes that you upload.",
    )
    if name == "brought":
        upload = form.choose()
        return None if upload is None else upload.spec
    if name != "own":
        return CORPUS_PRESETS[name or OPENING]
    return _shape_hospital()


def ask_for_notes() -> None:
    """Select uploaded notes, before the widgets are drawn (a button's callback)."""
    st.session_state["cohort"], st.session_state[_SET] = "brought", True


def asks_for_notes() -> bool:
    """Whether the viewer selected uploaded notes, whether or not any were uploaded yet."""
    return st.session_state.get("cohort") == "brought"


def _shape_hospital() -> CorpusSpec | None:
    default = CORPUS_PRESETS["classroom"]
    refusal = st.container()  # above the boxes, of which the last are below the fold
    with st.container(border=True):
        left, middle, right = st.columns(3)
        with left:
            # No ranges here: the browser would keep a number outside them back, and make the hospital before.
            patients = st.number_input("Patients", value=default.patients, step=10, key="patients", **KEEP)
            notes = st.slider(
                "Notes per patient (mean)", 1.0, 30.0, default.notes_per_patient, 0.5, key="notes", **KEEP
            )
            variant = st.selectbox("Wording", list(VARIANTS), format_func=VARIANTS.__getitem__, key="wording", **KEEP)
            lengths, usual = list(LENGTHS), list(LENGTHS).index(default.note_length)
            length = st.selectbox(
                "Length of notes", lengths, usual, format_func=LENGTHS.__getitem__, key="length", **KEEP
            )
        with middle:
            naming = _share("Notes that name the patient", default.naming_rate, "naming", "About 10 % in MIMIC-III.")
            generic = _share("Notes without patient details", default.generic_rate, "generic")
            copied = _share("Notes that copy a paragraph from the previous note", default.copy_forward, "copied")
        with right:
            canaries = st.number_input("Canary sentences", value=default.canaries, step=6, key="canaries", **KEEP)
            copies = st.selectbox(
                "Maximum copies of a canary sentence",
                COPIES,
                key="canary_copies",
                help="The sentences are planted 1, 2, 4, … times, up to this many, each by a fair coin.",
                **KEEP,
            )
            lines = st.number_input(
                "Canaries of random words",
                value=0,
                step=100,
                key="lines",
                help="Each is planted once, by a fair coin. With 100 or more, they audit ε; 400 prove more.",
                **KEEP,
            )
            population = st.number_input("Population patients", value=default.population, step=10, key="others", **KEEP)
            seed = st.number_input("Seed", value=default.seed, step=1, key="cohort_seed", **KEEP)
    wrong = (
        out_of_range("Patients", patients, 4, 200_000)
        or out_of_range("Canary sentences", canaries, 0, 5_000)
        or out_of_range("Canaries of random words", lines, 0, 5_000)
        or out_of_range("Population patients", population, 0, 200_000)
        or out_of_range("Seed", seed, 0, 1_000_000)
    )
    if wrong:
        refusal.error(f"{wrong}.", icon=":material/error:")
        return None
    try:
        shaped = {
            "patients": patients,
            "population": population,
            "notes_per_patient": notes,
            "naming_rate": naming,
            "generic_rate": generic,
            "copy_forward": copied,
            "variant": variant,
            "note_length": length,
            "canaries": canaries,
            "random_canaries": lines or None,
            "canary_copies": None if copies == COPIES[0] else copies,
            "seed": seed,
        }
        return CorpusSpec(**default.model_dump() | shaped)
    except ValidationError as error:
        refusal.error(sentence(error), icon=":material/error:")
        return None


def _share(label: str, default: float, key: str, help: str | None = None) -> float:
    """A slider in steps of 5 percent, as a share from 0 to 1."""
    return st.slider(label, 0, 100, round(100 * default), 5, format="%d %%", key=key, help=help, **KEEP) / 100


def sentence(error: ValidationError, symbols: Mapping[str, str] | None = None) -> str:
    """What a validation error says, in words: which setting, and what is wrong with it.

    `symbols` are the page's names of settings that are no words.
    """
    return " ".join(f"{_in_words(item, symbols or {})}." for item in error.errors())


def _in_words(item: ErrorDetails, symbols: Mapping[str, str]) -> str:
    """`Epochs: 1,000 at most`."""
    where = " ".join(symbols.get(str(step), str(step).replace("_", " ")) for step in item["loc"])
    text = f"{where}: {reason(item)}" if where else reason(item)
    return f"{text[0].upper()}{text[1:]}" if text[0].isascii() else text  # a capital Greek letter is another quantity


def describe(spec: CorpusSpec, notes: int | None = None) -> str:
    """One line on what a spec will build, or what was uploaded: `notes` if their number is known.

    The spec of uploaded notes keeps a rounded mean of notes per patient, so from it alone the number is approximate.
    """
    if spec.imported is not None:
        deduplicated = (
            "" if spec.deduplicated is None else " Copies were removed, so ε covers only the remaining notes."
        )
        given = (
            ""
            if spec.split is None
            else " Your file says who is a member: attacks may tell the groups apart by other differences between them."
        )
        counted = f"about {_notes(spec):,}" if notes is None else f"{notes:,}"
        return (
            f"Your notes: {spec.patients:,} patients, members or held out, and {spec.population:,} population "
            f"patients; {counted} notes, of which {percent(spec.naming_rate)} name someone; "
            f"{spec.canaries:,} canary sentences.{deduplicated}{given}"
        )
    kind = "short notes" if spec.note_length == "brief" else "notes"
    copies = f" of up to {spec.canary_copies} copies" if spec.canaries and spec.canary_copies is not None else ""
    lines = f" and {spec.random_canaries:,} canaries of random words" if spec.random_canaries else ""
    return (
        f"{spec.patients:,} patients (70\u00a0% members, 30\u00a0% held out) and {spec.population:,} population "
        f"patients, about {_notes(spec):,} {kind} (about {spec.training_notes:,} of them members', for "
        f"training); {percent(spec.naming_rate)} of the notes name their patient; "
        f"{spec.canaries:,} canary sentences{copies}{lines}; seed {spec.seed}."
    )


def hospital_name(spec: CorpusSpec) -> str:
    """`classroom hospital`, or `hospital of 60 patients` for a custom one; with the variant of its notes."""
    if spec.imported is not None:
        return f"own notes of {spec.patients + spec.population:,} patients"
    regular = spec.model_copy(update={"variant": "regular"})
    preset = next((name for name, known in CORPUS_PRESETS.items() if known == regular), None)
    if preset == "classroom-audit":
        named = "classroom with canaries of random words"
    elif preset is None:
        named = f"hospital of {spec.patients:,} patients"
    else:
        named = f"hospital of {PRESETS[preset]}" if PRESETS[preset].endswith("notes") else f"{PRESETS[preset]} hospital"
    return named if spec.variant == "regular" else f"{named}, {spec.variant.replace('-', ' ')}"


def presets_first(specs: Iterable[CorpusSpec]) -> list[CorpusSpec]:
    """In a fixed order: the preset that the pages open with, the other presets as they are listed, then by name."""
    presets = [CORPUS_PRESETS[name] for name in dict.fromkeys([OPENING, *PRESETS]) if name in CORPUS_PRESETS]
    last = len(presets)

    def place(spec: CorpusSpec) -> tuple[int, str, str]:
        return presets.index(spec) if spec in presets else last, hospital_name(spec), spec.digest()

    return sorted(specs, key=place)


def too_large_to_build(spec: CorpusSpec) -> bool:
    """Whether building this cohort here would keep the page waiting; one that is stored is only read."""
    large = spec.imported is None and _to_build(spec) > LIVE_NOTES
    return large and owner.workspace().corpus_folder(spec) is None


def show_command(spec: CorpusSpec) -> None:
    """Say that this cohort must be built from the command line, and with which command."""
    st.info(
        f"About {_to_build(spec):,} notes are too many to build on this page (the limit is {LIVE_NOTES:,}).",
        icon=":material/terminal:",
    )
    preset = next((name for name, known in CORPUS_PRESETS.items() if known == spec), None)
    if preset:
        st.markdown("Build it once from the command line, which writes it in parts and needs little memory:")
        st.code(f"python -m core corpus --preset {preset} --out {preset}-notes", language="bash")
    else:
        st.markdown("Make the cohort smaller: choose fewer patients or fewer notes per patient.")


def _notes(spec: CorpusSpec) -> int:
    """About how many notes patients have."""
    return round((spec.patients + spec.population) * spec.notes_per_patient)


def _to_build(spec: CorpusSpec) -> int:
    """About how many notes a cohort has with those of its canaries."""
    return round(_notes(spec) + spec.canary_notes())
