"""What every page shares: the navigation, the set-up, and the permanent badge that no patient is real.

`page()` is the first call of every page and may run any number of times. It also repairs a cold deep link. Streamlit
takes a folder named `pages/` for its old multipage scheme, so if the first request after a server start goes to
/playground, it runs pages/playground.py without app.py. `page()` then registers the navigation and runs again.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Literal

import streamlit as st
from streamlit.errors import StreamlitAPIException

from core.common.program import PROGRAM
from pages.parts.access import gate, viewer
from pages.parts.common import glossary, guess, page_files, phi_text, together
from pages.parts.session import classroom, cleanup, delivery, gone, media, owner, resources

ICON = str(PROGRAM / "assets/icon.svg")
SYNTHETIC = "Every name, number and diagnosis here is made up. This app contains no real person's data."
OWN = (
    "You uploaded notes: only you see them. They, and the text of models trained on them, may be about real people. "
    "Those models have “own notes” in their names; all others are of made-up patients."
)
OWN_FILE = (
    "Your file is open in this browser session. It may be about real people; only you see it. The hospitals on the "
    "other pages are made up."
)
IMPORTED = (
    "This server shows everyone the notes that were imported from the command line (PHILAB_SHOW_IMPORTED=1). They, and "
    "the text of models trained on them, may be about real people."
)
_REGISTERED = "shell_navigation_registered"
LOST = "Your uploaded notes and the models trained on them are gone: they were deleted elsewhere or had expired."
_SAID_LOST = "shell_said_lost"
_NOW, _BEFORE = "shell_page", "shell_page_before"  # names of this run's page and of the last run's
_PAGES = (  # short name, title, icon, help
    ("home", "Home", "home", "The app in three pictures, and a first leak."),
    ("lesson", "Lesson", "school", "Five steps, alone or with a class: predict, look, and check your answer."),
    ("cohort", "Cohort", "groups", "Design a synthetic hospital and read its notes with identifiers highlighted."),
    ("train", "Train", "model_training", "Train a model with or without differential privacy and watch it live."),
    ("playground", "Playground", "forum", "One prompt, two models side by side, leaks marked."),
    ("auditor", "Be the auditor", "gavel", "Guess which notes a model was trained on, and see which ε that rules out."),
    ("step", "Inside a step", "blur_on", "The real gradients of a step of DP-SGD: clipped, added up, hidden in noise."),
    ("tradeoff", "ε trade-off", "balance", "Move ε and see how usefulness and risk change together."),
    ("defences", "Defences", "shield", "The same patients and attacks under each defence, side by side."),
    ("membership", "Membership", "person_search", "Can an attacker tell whose notes the model was trained on?"),
    ("canaries", "Canaries", "key", "Planted secrets: does a model remember them, and does its guarantee hold?"),
    ("patients", "Patients", "clinical_notes", "Which patients leak, how rare they are, and what leaks about each."),
    ("probes", "Probes", "fingerprint", "Does a model know names, and which patient has which disease?"),
    (
        "forget",
        "Forget a patient",
        "person_remove",
        "Take one patient out of a model, in seconds or exactly, and attack the result.",
    ),
    ("findings", "Findings", "fact_check", "What five papers claim, and whether it holds here."),
    ("ledger", "Ledger", "receipt_long", "The releases of a cohort, and the privacy guarantee they leave."),
    ("report", "Report", "description", "A verdict on your models, and a file for those who sign off."),
    ("glossary", "Glossary", "menu_book", "The technical terms of this app, each with its source."),
)
_SECTIONS = {  # of the menu; pages that are in no section come first
    "Try it": ("playground", "train", "step", "auditor", "cohort"),
    "Trade-off": ("tradeoff", "defences", "report", "ledger"),
    "Attacks": ("membership", "canaries", "probes", "patients", "forget", "findings"),
}


def page_names() -> list[str]:
    """The short name of every page, in the order of the menu."""
    return [name for name, *_ in _PAGES]


def title_of(name: str) -> str:
    """The title of a page in the menu, by its short name."""
    return _entry(name)[1]


def _icon(name: str) -> str:
    return f":material/{_entry(name)[2]}:"


def _entry(name: str) -> tuple[str, str, str, str]:
    return next(entry for entry in _PAGES if entry[0] == name)


def pages() -> dict[str, st.Page]:
    """Every page by its short name, in the order of the menu. The name is also the path in the address.

    Home is at `/`: Streamlit gives its first page no other path. `navigation` leads `/home` there.
    """
    return {name: _page(name) for name in page_names()}


def _page(name: str) -> st.Page:
    _, title, _, about = _entry(name)
    return st.Page(
        PROGRAM / "pages" / f"{name}.py",
        title=title,
        icon=_icon(name),
        help=about,
        default=name == "home",
        url_path="start" if name == "home" else name,
    )


def navigation() -> st.Page:
    """Register the pages with Streamlit and return the one the address asks for.

    The tab's icon is set first: otherwise the browser would fetch the menu's icon for it from a font host on the net.
    """
    st.set_page_config(page_title="PHI Leak Lab", page_icon=ICON, layout="wide")
    alias = st.Page(_to_home, title="Home", url_path="home", visibility="hidden")
    every = pages()
    sections = {title: [every.pop(name) for name in names if name in every] for title, names in _SECTIONS.items()}
    shown: Literal["top", "hidden"] = "top" if viewer.standing().admitted else "hidden"
    current = st.navigation({"": [*every.values(), alias], **sections}, position=shown)
    st.session_state[_REGISTERED] = True
    return current


def run(current: st.Page) -> None:
    """Draw a page, for those who may see it.

    A damaged file that was not detected before ends this page with a sentence, and no other page.
    """
    gate.stop_others()
    try:
        current.run()
    except (ValueError, LookupError, FileNotFoundError) as error:
        from core.runs.audits import AuditBroken
        from core.runs.ledger.entries import LedgerBroken  # imports torch: not before it is needed
        from core.runs.run import RunBroken, RunNotFound
        from core.runs.store import CohortGone
        from core.runs.tables import TableMissing

        if not isinstance(error, (AuditBroken, CohortGone, LedgerBroken, RunBroken, RunNotFound, TableMissing)):
            raise
        st.error(phi_text.literal(str(error), 600), icon=":material/error:")


def _to_home() -> None:
    st.switch_page(pages()["home"])


def page(name: str, question: str, *, heading: str = "", guesses: bool = False) -> None:
    """Start a page: title, the question it answers, the badge about whose notes these are, and the glossary.

    Args:
        name: The page's short name. Its title and icon in the menu are also those of the heading.
        question: The question that the page answers, in one or two sentences.
        heading: Another heading instead, without an icon.
        guesses: Whether the page can ask for a guess before it shows a result.
    """
    gate.stop_others()
    title = heading or title_of(name)
    icon = None if heading else _icon(name)
    st.set_page_config(page_title=f"{title} · PHI Leak Lab", page_icon=ICON, layout="wide")
    if not st.session_state.get(_REGISTERED):
        navigation()
        st.rerun()
    _forget_unusable_parameters()
    _stop_without_data()
    classroom.enter(name)
    delivery.follow_reconnections()
    media.hide_addresses()
    st.session_state[_BEFORE], st.session_state[_NOW] = st.session_state.get(_NOW), name
    together.begin(name, page_names())
    cleanup.start_thread(str(resources.data()), resources.every_workspace())
    if not same_page() and st.session_state.pop(_SAID_LOST, False):
        gone.forget_lost()
    gone.drop()
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", key="page-head"):
        st.title(title, icon=icon, width="content")
        with st.container(horizontal=True, vertical_alignment="center", width="content", key="page-tools"):
            whose_notes()
            with st.popover("Terms on this page", icon=":material/menu_book:"):
                glossary.show(name)
                link("glossary", "All terms, with sources")
            if guesses:
                guess.switch()
            together.controls(name)
            gate.account()
            styles = ["style", "presenter"] if _large_type() else ["style"]
    st.html(f"<style>{_color_scheme()}{''.join(map(page_files.style, styles))}</style>")
    with st.container(key="page-question"):
        st.markdown(question)
    _list_damaged()
    if gone.lost():  # said until another page is opened
        st.session_state[_SAID_LOST] = True
        st.warning(LOST, icon=":material/delete:")


def _color_scheme() -> str:
    """The theme's colour scheme for popovers and dialogs, which Streamlit draws beside the app and not in it.

    So `light-dark()` in the style sheets is right there, too. A theme that is changed in the menu or by the system
    reaches them with the session's next run.
    """
    return f":root {{ color-scheme: {st.context.theme.type or 'light dark'}; }}"


def same_page() -> bool:
    """Whether the session's last run was of this page, too."""
    return st.session_state.get(_BEFORE) == st.session_state.get(_NOW)


def _list_damaged() -> None:
    """Name what is damaged: figures over all runs then cover fewer runs, and the reader should know."""
    from core.runs.run import REMEDY

    problems = [problem.replace(REMEDY, "").strip() for problem in owner.workspace().problems()]
    if problems:
        more = "" if len(problems) == 1 else f", and {len(problems) - 1} more"
        first = phi_text.literal(problems[0].split(" (")[0].rstrip("."), 110)
        with st.expander(f"Left out on this page: {first}{more}", icon=":material/broken_image:"):
            for problem in problems:
                st.markdown(phi_text.literal(problem, 400))
            st.markdown("The server's administrator can repair or remove it with `python -m core verify --repair`.")


# Parameters that are text, even if they look like a number.
_WORDS = ("room", "host", "word", "words", "code", "patient", "out", "use", "prompt")


def _forget_unusable_parameters() -> None:
    """Drop link parameters that no widget accepts: `?model=` clears a required choice, and `1e400` is not finite.

    Widgets are initialised from the link as it was when the script started, so the script starts again. Once a widget
    is bound to a parameter, only the widget may change it; an empty value is then one that the user cleared.
    """
    forgotten = False
    for name, value in list(st.query_params.items()):
        if value == "" or (name not in _WORDS and _beyond_numbers(value)):
            with contextlib.suppress(StreamlitAPIException):
                del st.query_params[name]
                forgotten = True
    if forgotten:
        st.rerun()


def _beyond_numbers(text: str) -> bool:
    """Whether this parses as a number that is infinite or NaN."""
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return False


def _large_type() -> bool:
    """The presenter's switch, also `?presenter=1`. The session keeps it, since a widget's state ends with its page."""
    st.session_state.setdefault("large_type", st.query_params.get("presenter") == "1")
    return st.toggle(
        "Large type",
        st.session_state["large_type"],
        key="presenter",
        on_change=_keep_large_type,
        help="For a projector: larger letters and less text.",
    )


def _keep_large_type() -> None:
    st.session_state["large_type"] = st.session_state["presenter"]
    if st.session_state["large_type"]:
        st.query_params["presenter"] = "1"
    else:
        st.query_params.pop("presenter", None)


def link(name: str, label: str, *, icon: str | None = None, query: Mapping[str, str] | None = None) -> None:
    """A link to another page by its short name; it keeps the session, so no choice is lost.

    `query` sets widgets of that page that stand in its link.
    """
    st.page_link(_page(name), label=label, icon=icon, query_params=dict(query) if query else None)


def link_to_train() -> None:
    """The link that a page without a model ends with."""
    link("train", "Train a model", icon=":material/model_training:")


def _stop_without_data() -> None:
    """If the data folder cannot be used, say so and stop: no page can show anything then."""
    from core.runs.store import DataFolderUnusable

    try:
        resources.data()
    except DataFolderUnusable as error:
        st.error(str(error), icon=":material/hard_drive:")
        st.stop()


def whose_notes() -> None:
    """The badge on every page: no patient is real, or whose notes these are."""
    from core.runs.uploads.records import shows_commands_notes, uploads

    if uploads(resources.data(), owner.owner()):
        st.badge("Synthetic patients, and your notes", icon=":material/lock:", color="orange", help=OWN)
    elif owner.has_own_file():
        st.badge("Your file: only you see it", icon=":material/lock:", color="orange", help=OWN_FILE)
    elif shows_commands_notes():
        st.badge("Imported notes: maybe real people", icon=":material/warning:", color="red", help=IMPORTED)
    else:
        st.badge("Synthetic patients: no real people", icon=":material/info:", color="green", help=SYNTHETIC)
