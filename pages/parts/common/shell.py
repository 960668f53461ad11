"""What every page shares: the navigation, the set-up, and the permanent note that no patient is real.

`page()` is the first call of every page and may run any number of times. It also mends a cold deep link: Streamlit
takes a folder named `pages/` for its old multipage scheme, so the first request after a server start, when it goes to
/playground, runs pages/playground.py without app.py. `page()` notices, registers the navigation and runs again.
"""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import streamlit as st
from streamlit.errors import StreamlitAPIException

from pages.parts.common import glossary, phi_text
from pages.parts.session import classroom, cleanup, owner, resources

ROOT = Path(__file__).resolve().parents[3]
ICON = str(ROOT / "assets/icon.svg")
SYNTHETIC = "Every name, number and diagnosis here is made up: no real person's data is in this app."
OWN = "You brought notes of your own. They, and what models trained on them write, may be about real people."
OWN_FILE = (
    "A file of your own is open in this browser session. It may be about real people; nobody else sees it. The "
    "hospitals on the other pages are made up."
)
BROUGHT = (
    "This server shows everybody the notes that were brought by command (PHILAB_SHOW_IMPORTED=1). They, and what "
    "models trained on them write, may be about real people."
)
_REGISTERED = "shell_navigation_registered"
_PAGES = (  # short name, title, icon, what one finds there
    ("home", "Home", "home", "What this is in three pictures, and a first leak on screen."),
    ("lesson", "Lesson", "school", "Five steps for a class or for oneself: predict, look, and see who was right."),
    ("cohort", "Cohort", "groups", "Shape a synthetic hospital and read its notes with identifiers highlighted."),
    ("train", "Train", "model_training", "Train a model with or without differential privacy and watch it live."),
    ("playground", "Playground", "forum", "One prompt, two models side by side, leaks marked."),
    ("tradeoff", "ε trade-off", "balance", "Move ε and see usefulness and risk move together."),
    ("defences", "Defences", "shield", "The same patients and attacks under each defence, side by side."),
    ("membership", "Membership", "person_search", "Can somebody tell whose notes the model was trained on?"),
    ("canaries", "Canaries", "key", "Planted secrets: how well they are remembered, and what the guarantee is worth."),
    ("patients", "Patients", "clinical_notes", "Which patients leak, how rare they are, and what leaked of each."),
    ("probes", "Probes", "fingerprint", "Does it know names, and which patient has which disease?"),
    ("ledger", "Ledger", "receipt_long", "What was promised about a cohort so far, by all that was given away."),
    ("report", "Report", "description", "A verdict on some models, and a file for those who must sign."),
    ("glossary", "Glossary", "menu_book", "Every word of the field that this app uses, and where it is defined."),
)
_SECTIONS = {  # of the menu; pages that no section names stand before them
    "Teach": ("cohort", "train", "playground", "glossary"),
    "Decide": ("tradeoff", "ledger", "defences", "report"),
    "Inspect": ("patients", "membership", "canaries", "probes"),
}


def pages() -> dict[str, st.Page]:
    """Every page by its short name, in the order of the menu. The name is also the path in the address.

    Home is at `/`: Streamlit gives its first page no other path. `navigation` leads `/home` there.
    """
    return {entry[0]: _page(*entry) for entry in _PAGES}


def _page(name: str, title: str, icon: str, about: str) -> st.Page:
    return st.Page(
        ROOT / "pages" / f"{name}.py",
        title=title,
        icon=f":material/{icon}:",
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
    current = st.navigation({"": [*every.values(), alias], **sections}, position="top")
    st.session_state[_REGISTERED] = True
    return current


def run(current: st.Page) -> None:
    """Draw a page. A damaged file that nobody noticed before ends it with a sentence, and no other page with it."""
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


def page(title: str, question: str, *, icon: str | None = None) -> None:
    """Open a page: title, the question it answers in one sentence, the synthetic-patients note and the glossary."""
    st.set_page_config(page_title=f"{title} · PHI Leak Lab", page_icon=ICON, layout="wide")
    if not st.session_state.get(_REGISTERED):
        navigation()
        st.rerun()
    _forget_unusable_parameters()
    _stop_without_data()
    classroom.enter()
    cleanup.keep_time(str(resources.data()), resources.every_workspace())
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.title(title, icon=icon, width="content")
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            _whose_notes()
            with st.popover("Words used here", icon=":material/menu_book:"):
                glossary.show(next((name for name, label, _, _ in _PAGES if label == title), "home"))
                link("glossary", "Every word, with its source")
            looks = ["style", "presenter"] if _large_type() else ["style"]
    st.html(f"<style>{''.join((ROOT / f'assets/{look}.css').read_text(encoding='utf-8') for look in looks)}</style>")
    with st.container(key="page-question"):
        st.markdown(question)
    _what_cannot_be_used()


def _what_cannot_be_used() -> None:
    """Name what is damaged: a figure over all runs is then one over fewer, and whoever reads it should know."""
    from core.runs.run import REMEDY

    problems = [problem.replace(REMEDY, "").strip() for problem in owner.workspace().problems()]
    if problems:
        more = "" if len(problems) == 1 else f", and {len(problems) - 1} more"
        first = phi_text.literal(problems[0].split(" (")[0].rstrip("."), 110)
        with st.expander(f"Left out on this page: {first}{more}", icon=":material/broken_image:"):
            for problem in problems:
                st.markdown(phi_text.literal(problem, 400))
            st.markdown("Whoever runs this server can repair or remove it with `python -m core verify --repair`.")


_WORDS = ("room", "host", "word", "patient", "use")  # parameters that are words, and may look like any number


def _forget_unusable_parameters() -> None:
    """Pass over what of a link no widget can take: `?model=` clears a choice that is required, `1e400` is no number.

    Widgets begin with the link as it was when the script started, so it starts again. Once a widget holds a parameter
    only the widget may change it, and an empty one is what somebody cleared.
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
    """Whether this is written like a number that is none: infinite or NaN."""
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return False


def _large_type() -> bool:
    """The presenter's switch, also `?presenter=1`. It holds on every page: a widget's own state ends with its page."""
    st.session_state.setdefault("large_type", st.query_params.get("presenter") == "1")
    return st.toggle(
        "Large type",
        st.session_state["large_type"],
        key="presenter",
        on_change=_keep_large_type,
        help="For a projector: larger letters, and less to read.",
    )


def _keep_large_type() -> None:
    st.session_state["large_type"] = st.session_state["presenter"]
    if st.session_state["large_type"]:
        st.query_params["presenter"] = "1"
    else:
        st.query_params.pop("presenter", None)


def link(name: str, label: str, *, icon: str | None = None) -> None:
    """A link to another page by its short name; keeps the session, so nothing chosen is lost."""
    entry = next(entry for entry in _PAGES if entry[0] == name)  # making every page takes milliseconds
    st.page_link(_page(*entry), label=label, icon=icon)


def _stop_without_data() -> None:
    """Say that the data folder cannot be used, where that is so; no page can show anything then."""
    from core.runs.store import DataFolderUnusable

    try:
        resources.data()
    except DataFolderUnusable as error:
        st.error(str(error), icon=":material/hard_drive:")
        st.stop()


def _whose_notes() -> None:
    """Say on every page that no patient is real, or whose notes these are."""
    from core.runs.uploads.records import shows_commands_notes, uploads

    if uploads(resources.data(), owner.owner()):
        st.badge("Your own notes: only you see them", icon=":material/lock:", color="orange", help=OWN)
    elif owner.looks_at_own_file():
        st.badge("Your own file: only you see it", icon=":material/lock:", color="orange", help=OWN_FILE)
    elif shows_commands_notes():
        st.badge("Notes that were brought: perhaps real people", icon=":material/warning:", color="red", help=BROUGHT)
    else:
        st.badge("Synthetic patients: no real person", icon=":material/info:", color="green", help=SYNTHETIC)
