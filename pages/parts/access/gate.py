"""The page of those who are not let in, and the account menu of those who are."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec

import streamlit as st
from streamlit.errors import StreamlitAuthError

from pages.parts.access import viewer
from pages.parts.access.rules import Role
from pages.parts.access.viewer import Standing
from pages.parts.common import page_files
from pages.parts.common.phi_text import literal

log = logging.getLogger(__name__)
P = ParamSpec("P")

MOST_LETTERS = 40  # of a name or an address, as its provider sent it
MAY = {
    Role.VIEWER: "You can look at everything, prompt models in the Playground, and take part in a class.",
    Role.TRAINER: "Beyond looking and prompting, you can train and attack models, forget patients, and upload notes.",
    Role.INSTRUCTOR: "You can do everything: also open a class, manage the queue, and record releases.",
}


def stop_others() -> None:
    """Stop the script, with a page that says why, unless the viewer may see pages.

    Both ways to a page call this before anything is drawn: `shell.run`, and `shell.page` for a page that Streamlit
    started without app.py.
    """
    now = viewer.standing()
    if not now.admitted:
        _closed(now)
        st.stop()


def fragment(function: Callable[P, None], run_every: float | None = None) -> Callable[P, None]:
    """`st.fragment` for those who may see pages (`drawn_for_admitted`)."""
    return st.fragment(drawn_for_admitted(function), run_every=run_every)


def drawn_for_admitted(function: Callable[P, None]) -> Callable[P, None]:
    """A fragment or dialog for those who may see pages: for others the whole page is drawn again, which stops them.

    Fragments and dialogs are drawn again without the rest of their page, and so without `stop_others`.
    """

    @functools.wraps(function)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> None:
        if not viewer.standing().admitted:
            st.rerun()
        function(*args, **kwargs)

    return drawn


def _closed(now: Standing) -> None:
    """All that those see who are not let in."""
    st.set_page_config(page_title="PHI Leak Lab")
    st.title("PHI Leak Lab")
    if now.why == "signed out":
        st.markdown("This server is open to people on its list. Sign in to continue.")
        _sign_in()
        _wanted(keep=True)
        return
    st.error(_refusal(now), icon=":material/lock:")
    if now.email or st.user.get("is_logged_in"):
        st.button("Sign out", icon=":material/logout:", key="sign-out", on_click=viewer.sign_out)


def _sign_in() -> None:
    """A button for the provider; one for each where several are configured."""
    for provider in viewer.providers():
        label = "Sign in" if provider is None else f"Sign in with {literal(provider, MOST_LETTERS)}"
        key = f"sign-in-{provider or 'default'}"
        if st.button(label, icon=":material/login:", type="primary", key=key):
            try:
                st.login() if provider is None else st.login(provider)
            except StreamlitAuthError:
                log.exception("nobody can sign in")
                st.error("Sign-in is not set up completely. The server's log says what is missing.")


def _refusal(now: Standing) -> str:
    """Why a person is not let in, and whom to ask."""
    whom = literal(now.contact, 200) if now.contact else "the server's administrator"
    if now.why == "misconfigured":
        return "Sign-in is not set up correctly, so no one can sign in. The server's log says why."
    if now.why == "unverified":
        return f"Your provider has not verified your e-mail address. Ask {whom}."
    return f"{literal(now.email, MOST_LETTERS)} is not on this server's list. Ask {whom} to add you."


def _wanted(*, keep: bool) -> None:
    """Have the browser keep the address of this page until after the sign-in, or go to the one that it kept."""
    keeper = st.components.v2.component("philab_wanted", js=page_files.component("wanted.js"))
    keeper(key="wanted-page", data={"keep": keep})


def account() -> None:
    """On every page: who is signed in, in which role, and the button to sign out. Nothing where nobody signs in."""
    now = viewer.standing()
    if now.role is None:
        return
    _wanted(keep=False)
    who = literal(now.name or now.email, MOST_LETTERS)
    with st.popover(who, icon=":material/account_circle:", key="account"):
        st.markdown(f"**{who}**  \n{literal(now.email, 100)}")
        st.markdown(f"Your role is **{now.role.word}**. {MAY[now.role]}")
        st.button("Sign out", icon=":material/logout:", key="sign-out", on_click=viewer.sign_out)
