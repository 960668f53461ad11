"""The viewer's standing: whether sign-in is asked for, who is signed in, and in which role.

Off by default. It is on as soon as Streamlit's secrets have a section `[auth]` or `[access]`, or PHILAB_ACCESS names a
file. What cannot be read or understood lets nobody in. Everything that starts work calls `require` or `refused`.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import streamlit as st
from streamlit.errors import StreamlitSecretNotFoundError

from core.common.files import create, make_folder
from pages.parts.access import rules
from pages.parts.access.rules import Action, Lists, Misconfigured, Role
from pages.parts.session import resources

log = logging.getLogger(__name__)

Made = TypeVar("Made")
Why = Literal["", "signed out", "unknown", "unverified", "misconfigured"]
ENDED = "signed-out"  # the folder of ended sign-ins in the data folder: an empty file each, named by its digest


class Refused(ValueError):
    """The viewer's role does not permit this. The message is a sentence for the viewer."""


@dataclass(frozen=True)
class Standing:
    """What is known of the viewer.

    Attributes:
        required: Whether this server asks people to sign in. Without, everyone may do everything.
        role: The role; None for those who may not see anything.
        why: Why there is no role; empty if there is one, or none is needed.
        owner: The name under which the person's uploads are kept; empty if nobody is signed in.
        email: The address as the provider sent it.
        name: The name as the provider sent it.
        contact: Whom to ask for access; may be empty.
        problem: What is wrong with the configuration, for the administrator.
    """

    required: bool
    role: Role | None = None
    why: Why = ""
    owner: str = ""
    email: str = ""
    name: str = ""
    contact: str = ""
    problem: str = ""

    @property
    def admitted(self) -> bool:
        """Whether the viewer may see pages."""
        return not self.required or self.role is not None


OPEN = Standing(required=False)


class _Process:
    """What this process remembers: that sign-in was asked for once, and which sign-ins were ended."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.required = False  # stays true: a file of secrets that is being rewritten opens nothing
        self.from_files = False  # stays true: what Streamlit remembers of a file that is gone lets nobody in
        self.ended: dict[Path, set[str]] = {}  # by data folder
        self.logged = ""


@resources.process_object
def _process() -> _Process:
    return _Process()


def standing() -> Standing:
    """The viewer's standing now; configuration and ended sign-ins are looked up each time."""
    try:
        lists = _configured()
        if lists is None:
            return OPEN
        return _standing(_claims(), lists, time.time())
    except (Misconfigured, OSError) as error:
        if str(error) != _process().logged:
            _process().logged = str(error)
            log.error("nobody is let in: %s", error)
        return Standing(required=True, why="misconfigured", problem=str(error))


def _claims() -> dict[str, Any]:
    """What the provider said of the viewer, from the signed cookie."""
    return st.user.to_dict()


def _standing(claims: Mapping[str, Any], lists: Lists, now: float) -> Standing:
    contact = lists.contact
    gone = not claims.get("is_logged_in") or not rules.fresh(claims, lists.hours, now)
    if gone or _has_ended(rules.sign_in_of(claims)):
        return Standing(required=True, why="signed out", contact=contact)
    email, name = (claims[key] if isinstance(claims.get(key), str) else "" for key in ("email", "name"))
    trusted = rules.address(claims)
    role = None if trusted is None else lists.role(trusted)
    why: Why = "unverified" if trusted is None else "" if role else "unknown"
    return Standing(True, role, why, rules.owner_of(claims), email, name, contact)


# What is permitted ---------------------------------------------------------------------------------------------------


def may(action: Action) -> bool:
    """Whether the viewer may do this."""
    now = standing()
    return not now.required or (now.role is not None and now.role >= rules.NEEDED[action])


def require(action: Action) -> None:
    """Raise Refused, with a sentence, unless the viewer may do this."""
    if not may(action):
        raise Refused(needs(action))


def refused(action: Action) -> bool:
    """For a button's callback: whether the viewer may not do this, which a message then says."""
    if may(action):
        return False
    st.toast(needs(action), icon=":material/lock:")
    return True


def needs(action: Action) -> str:
    """Which role an action needs, as a sentence."""
    role = rules.NEEDED[action]
    article = "an" if role.word[0] in "aeiou" else "a"
    return f"To {rules.IN_WORDS[action]}, you need the role of {article} {role.word}. Ask the server's administrator."


def later(make: Callable[[], Made]) -> Callable[[], Made]:
    """`make` for a download that is made when its button is pressed: it asks again whether the viewer may see pages.

    Such a function runs outside of any script, where nobody is signed in, so who is was noted when the page was drawn.
    Raises Refused.
    """
    claims = _claims() if standing().required else {}

    def made() -> Made:
        lists = _configured()
        if lists is not None and _standing(claims, lists, time.time()).role is None:
            raise Refused("You are no longer signed in.")
        return make()

    return made


def locked(action: Action) -> dict[str, Any]:
    """For a button: that it is disabled, and why; nothing if the viewer may press it."""
    return {} if may(action) else {"disabled": True, "help": needs(action)}


def instructs() -> bool | None:
    """Whether the viewer's role is that of an instructor; None where people have no roles."""
    now = standing()
    return now.role == Role.INSTRUCTOR if now.required else None


# Signing out ---------------------------------------------------------------------------------------------------------


def sign_out() -> None:
    """End this sign-in on the server, in every tab and for every copy of its cookie, and in the browser."""
    claims = _claims()
    try:
        if claims.get("is_logged_in"):
            digest = rules.sign_in_of(claims)
            _ended().add(digest)
            create(make_folder(resources.data() / ENDED, private=True) / digest, private=True)
    finally:  # also on a full disk
        st.logout()


def _has_ended(digest: str) -> bool:
    """Whether a sign-in was ended, by this process or by another one of the same data folder."""
    return digest in _ended() or (resources.data() / ENDED / digest).exists()


def _ended() -> set[str]:
    """Digests of the sign-ins that were ended and whose cookie may still exist somewhere."""
    folder = resources.data() / ENDED
    with _process().lock:
        if folder not in _process().ended:
            _process().ended[folder] = {path.name for path in folder.glob("*") if not _outlived(path)}
        return _process().ended[folder]


def _outlived(path: Path) -> bool:
    """Whether the cookie of an ended sign-in cannot exist any more; its file is then removed."""
    if time.time() - path.stat().st_mtime < rules.MOST_HOURS * 3600:
        return False
    path.unlink(missing_ok=True)
    return True


# Configuration -------------------------------------------------------------------------------------------------------


def providers() -> list[str | None]:
    """The providers of `[auth]`, as `st.login` takes them: None is the unnamed one, and comes alone."""
    section = _secrets().get("auth", {})
    if "client_id" in section:
        return [None]
    return [name for name, value in section.items() if isinstance(value, Mapping) and "client_id" in value]


def public_address() -> str | None:
    """The address under which browsers reach this server, from `redirect_uri`; None if that is this computer's own."""
    auth = _secrets().get("auth")
    redirect = auth.get("redirect_uri") if isinstance(auth, Mapping) else None
    parts = urlsplit(redirect) if isinstance(redirect, str) else None
    if parts is None or not parts.hostname or parts.hostname == "localhost" or parts.hostname.startswith("127."):
        return None
    return f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('/oauth2callback')}"


def _configured() -> Lists | None:
    """The lists; None if this server asks nobody to sign in. Raises Misconfigured."""
    file = os.environ.get("PHILAB_ACCESS", "").strip()
    secrets = _secrets()
    if not _about_sign_in(secrets) and not file:
        if _process().required:
            raise Misconfigured("[auth] and [access] are gone. Restart the server to open it to everyone.")
        return None
    _process().required = True
    _check_auth(secrets.get("auth"))
    section = _from_file(Path(file)) if file else secrets.get("access")
    if not isinstance(section, Mapping):
        raise Misconfigured("No section [access] says who may sign in.")
    return _parsed(json.dumps(section, default=_plain, sort_keys=True))


def _check_auth(auth: object) -> None:
    """Raise Misconfigured unless `[auth]` names a provider and has a secret that nobody guesses."""
    if not isinstance(auth, Mapping):
        raise Misconfigured("[access] lists who may sign in, but section [auth] is missing.")
    secret = auth.get("cookie_secret")
    if not isinstance(secret, str) or len(secret) < rules.SHORTEST_SECRET:
        raise Misconfigured(f"cookie_secret in [auth] must have at least {rules.SHORTEST_SECRET} random characters.")
    if not providers():
        raise Misconfigured("[auth] has no client_id of a provider.")
    if st.get_option("server.trustedUserHeaders"):
        raise Misconfigured("server.trustedUserHeaders is set: a browser could send someone else's address.")


def _secrets() -> Mapping[str, Any]:
    """The secrets as the files are now; empty if there are none. Raises Misconfigured if one cannot be read.

    Streamlit keeps what it read until its watcher sees a change, and the watcher ends at a file that is damaged or gone
    for a moment. Who was taken off a list would stay in. Streamlit's own reading is used where no file has a section
    about sign-in: secrets may be folders.
    """
    files: dict[str, Any] = {}
    for path in st.get_option("secrets.files") or ():
        if path.endswith(".toml"):
            files.update(_toml(Path(path)))
    if _about_sign_in(files):
        _process().from_files = True
        return files
    if _process().from_files:
        return {}
    try:
        return st.secrets.to_dict()
    except StreamlitSecretNotFoundError:
        return {}


def _about_sign_in(secrets: Mapping[str, Any]) -> bool:
    return "auth" in secrets or "access" in secrets


def _from_file(path: Path) -> object:
    """The section `[access]` of the file that PHILAB_ACCESS names. Raises Misconfigured."""
    if not path.exists():
        raise Misconfigured(f"There is no file {path}, which PHILAB_ACCESS names.")
    return _toml(path).get("access")


def _toml(path: Path) -> Mapping[str, Any]:
    """A file's content as it is now; empty if it does not exist. Raises Misconfigured."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise Misconfigured(f"The file {path} cannot be read: {error}.") from error
    return _read(path, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=8)
def _read(path: Path, *stamp: int) -> Mapping[str, Any]:
    """The content of a file with this stamp: a change of the file has another one. Raises Misconfigured."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Misconfigured(f"The file {path} cannot be read: {error}.") from error


@lru_cache(maxsize=8)
def _parsed(section: str) -> Lists:
    return Lists.of(json.loads(section))


def _plain(value: Any) -> Any:
    """What JSON does not know: a section inside the section, or a date. `Lists.of` refuses it."""
    return str(value)
