"""The rules of access, without a page: who is on the lists, in which role, and which role each action needs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

CLOCK_SECONDS = 300.0  # that the provider's clock may be ahead of this one
HOURS = 12.0  # that a sign-in lasts, unless `hours` says otherwise: a day of teaching
MOST_HOURS = 24.0 * 30  # Streamlit's cookie ends then
SHORTEST_SECRET = 32  # characters of the cookie's secret: anyone who guesses it can sign in as anybody
_ADDRESS = re.compile(r"[^\s@]+@[^\s@]+", re.ASCII)
_DOMAIN = re.compile(r"@[a-z0-9-]+(\.[a-z0-9-]+)+", re.ASCII)


class Role(IntEnum):
    """What a person may do. Each role may also do what the roles before it may."""

    VIEWER = 1
    TRAINER = 2
    INSTRUCTOR = 3

    @property
    def word(self) -> str:
        """The role in words."""
        return self.name.lower()


Action = Literal["train", "audit", "gradients", "forget", "upload", "delete", "release", "host"]
NEEDED: dict[Action, Role] = {
    "train": Role.TRAINER,
    "audit": Role.TRAINER,
    "gradients": Role.TRAINER,
    "forget": Role.TRAINER,
    "upload": Role.TRAINER,
    "delete": Role.TRAINER,
    "release": Role.INSTRUCTOR,
    "host": Role.INSTRUCTOR,
}
IN_WORDS: dict[Action, str] = {
    "train": "train a model",
    "audit": "attack a model",
    "gradients": "compute the gradients of a training step",
    "forget": "take a patient out of a model",
    "upload": "upload notes",
    "delete": "delete notes",
    "release": "record a release",
    "host": "open a class",
}


class Misconfigured(ValueError):
    """The configuration of access cannot be used. The message is a sentence for the administrator."""


@dataclass(frozen=True)
class Lists:
    """The allow-list: roles by e-mail address, and by domain (`@example.org`), both in lower case.

    Attributes:
        people: Roles of single addresses. They go before the role of the address's domain.
        domains: Roles of everybody with an address in exactly this domain.
        hours: How long a sign-in lasts.
        contact: Whom to ask for access; may be empty.
    """

    people: Mapping[str, Role]
    domains: Mapping[str, Role]
    hours: float = HOURS
    contact: str = ""

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> Lists:
        """The lists in a section `[access]`. Raises Misconfigured for anything that is not understood."""
        known = {f"{role.word}s": role for role in Role}
        unknown = sorted(set(section) - {*known, "hours", "contact"})
        if unknown:
            raise Misconfigured(f"[access] has an unknown key: {unknown[0]}. Known keys: {', '.join(known)}.")
        people: dict[str, Role] = {}
        domains: dict[str, Role] = {}
        for key, role in known.items():
            entries = section.get(key, [])
            if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
                raise Misconfigured(f"{key} in [access] must be a list of addresses in quotation marks.")
            for entry in entries:
                place = _entry(key, entry)
                table = domains if place.startswith("@") else people
                table[place] = max(role, table.get(place, role))
        hours, contact = section.get("hours", HOURS), section.get("contact", "")
        if isinstance(hours, bool) or not isinstance(hours, int | float) or not 0 < hours <= MOST_HOURS:
            raise Misconfigured(f"hours in [access] must be a number above 0, and at most {MOST_HOURS:g}.")
        if not isinstance(contact, str):
            raise Misconfigured("contact in [access] must be text.")
        return cls(people, domains, float(hours), contact.strip())

    def role(self, email: str) -> Role | None:
        """The role of an address in lower case; None if it is on no list."""
        _, at, domain = email.rpartition("@")
        return self.people.get(email) or self.domains.get(at + domain)


def _entry(key: str, entry: str) -> str:
    """An entry of a list in lower case. Raises Misconfigured if it is no address and no domain."""
    place = entry.strip().lower()
    if not entry.isascii() or not (_DOMAIN.fullmatch(place) or _ADDRESS.fullmatch(place)):
        raise Misconfigured(f"{key} in [access] has an entry that is neither an e-mail address nor @domain.")
    return place


def address(claims: Mapping[str, Any]) -> str | None:
    """The verified e-mail address of a signed-in person, in lower case; None if there is none to trust.

    Only `email_verified` that is true, or a provider that does not send it, is trusted. Letters outside ASCII are not
    accepted: some of them become ASCII letters in lower case, and so would another person's address.
    """
    email = claims.get("email")
    if not isinstance(email, str) or not email.isascii() or not _ADDRESS.fullmatch(email):
        return None
    verified = claims.get("email_verified", True)
    return email.lower() if verified is True or verified == "true" else None


def fresh(claims: Mapping[str, Any], hours: float, now: float) -> bool:
    """Whether a sign-in is still in force: from `iat`, the time of its token in seconds since 1970."""
    issued = claims.get("iat")
    if isinstance(issued, bool) or not isinstance(issued, int | float):
        return False
    return -CLOCK_SECONDS <= now - issued < hours * 3600


def identity(claims: Mapping[str, Any]) -> tuple[str, str] | None:
    """Issuer and subject, which together name one person for ever (OpenID Connect Core 1.0, §5.7)."""
    issuer, subject = claims.get("iss"), claims.get("sub")
    if isinstance(issuer, str) and isinstance(subject, str) and issuer and subject:
        return issuer, subject
    return None


def owner_of(claims: Mapping[str, Any]) -> str:
    """The name under which a person's uploads are kept. Raises Misconfigured if the provider names nobody."""
    who = identity(claims)
    if who is None:
        raise Misconfigured("The provider's answer does not say who signed in (`iss` and `sub`).")
    return "user-" + _digest(who)


def sign_in_of(claims: Mapping[str, Any]) -> str:
    """The digest of one sign-in: all tabs of a browser share it, and the next sign-in has another."""
    return _digest((*(identity(claims) or ()), claims.get("iat"), claims.get("nonce")))


def _digest(parts: tuple[Any, ...]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()  # JSON: no two tuples give the same text
