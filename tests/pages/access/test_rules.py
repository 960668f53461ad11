"""The lists, the roles, and whose address is trusted: also by those who try to be somebody else."""

from __future__ import annotations

import pytest

from pages.parts.access import rules
from pages.parts.access.rules import Lists, Misconfigured, Role

NOW = 1_800_000_000.0
LISTS = Lists.of(
    {
        "viewers": ["@example.org", "guest@elsewhere.test"],
        "trainers": [" Ada@Example.org "],
        "instructors": ["grace@example.org", "@staff.example.org"],
    }
)


@pytest.mark.parametrize(
    ("email", "role"),
    [
        ("ada@example.org", Role.TRAINER),
        ("grace@example.org", Role.INSTRUCTOR),
        ("someone@example.org", Role.VIEWER),
        ("guest@elsewhere.test", Role.VIEWER),
        ("anna@staff.example.org", Role.INSTRUCTOR),
        ("other@elsewhere.test", None),
        ("ada@evil-example.org", None),
        ("ada@example.org.evil.test", None),
        ("ada@sub.example.org", None),
        ("example.org", None),
        ("@example.org", Role.VIEWER),  # never asked: `address` lets no such address through
    ],
)
def test_roles_by_address_and_by_exactly_this_domain(email: str, role: Role | None) -> None:
    assert LISTS.role(email) == role


def test_an_address_goes_before_its_domain_and_of_two_lists_the_higher_role() -> None:
    lists = Lists.of({"instructors": ["@example.org", "both@x.test"], "viewers": ["ada@example.org", "both@x.test"]})
    assert lists.role("ada@example.org") == Role.VIEWER
    assert lists.role("else@example.org") == Role.INSTRUCTOR
    assert lists.role("both@x.test") == Role.INSTRUCTOR


@pytest.mark.parametrize(
    ("claims", "address"),
    [
        ({"email": "Ada@Example.ORG", "email_verified": True}, "ada@example.org"),
        ({"email": "ada@example.org", "email_verified": "true"}, "ada@example.org"),
        ({"email": "ada@example.org"}, "ada@example.org"),
        ({"email": "ada@example.org", "email_verified": False}, None),
        ({"email": "ada@example.org", "email_verified": "false"}, None),
        ({"email": "ada@example.org", "email_verified": None}, None),
        ({"email": "ada@example.org", "email_verified": "yes"}, None),
        ({"email": "ada@example.org", "email_verified": 1}, None),
        ({"email_verified": True}, None),
        ({"email": "", "email_verified": True}, None),
        ({"email": ["ada@example.org"], "email_verified": True}, None),
        ({"email": "@example.org"}, None),
        ({"email": "ada@"}, None),
        ({"email": "eve@evil.test@example.org"}, None),
        ({"email": '"x@evil.test"@example.org'}, None),
        ({"email": "eve@evil.test\n@example.org"}, None),
        ({"email": "eve @example.org"}, None),
        ({"email": "ada@example.org\n"}, None),
        ({"email": "\u212aarl@example.org"}, None),  # the Kelvin sign is a k in lower case
        ({"email": "ada@ex\u00e4mple.org"}, None),
    ],
)
def test_only_a_whole_and_verified_address_is_trusted(claims: dict, address: str | None) -> None:
    assert rules.address(claims) == address


@pytest.mark.parametrize(
    ("issued", "hours", "fresh"),
    [
        (NOW, 12, True),
        (NOW - 12 * 3600 + 1, 12, True),
        (NOW - 12 * 3600, 12, False),
        (NOW + 299, 12, True),
        (NOW + 301, 12, False),  # a token of the future would last longer than it should
        (None, 12, False),
        ("soon", 12, False),
        (True, 12, False),
        (float("nan"), 12, False),
    ],
)
def test_a_sign_in_lasts_its_hours(issued: object, hours: float, fresh: bool) -> None:
    assert rules.fresh({"iat": issued}, hours, NOW) is fresh


def test_owners_differ_where_people_differ_and_a_new_address_changes_nothing() -> None:
    one = {"iss": "https://a", "sub": "b/c", "email": "ada@example.org"}
    assert rules.owner_of(one) == rules.owner_of(one | {"email": "ada@new.test", "iat": NOW})
    assert len({rules.owner_of(one | other) for other in ({}, {"sub": "c"}, {"iss": "https://a/b", "sub": "c"})}) == 3
    for missing in ({"iss": ""}, {"sub": None}, {"sub": 7}):
        with pytest.raises(Misconfigured):
            rules.owner_of(one | missing)


def test_each_sign_in_has_a_digest_of_its_own() -> None:
    one = {"iss": "https://a", "sub": "b", "iat": 5, "nonce": "x"}
    assert rules.sign_in_of(one) == rules.sign_in_of(one | {"name": "another"})
    others = [one | change for change in ({"iat": 6}, {"nonce": "y"}, {"sub": "c"})]
    assert len({rules.sign_in_of(each) for each in (one, *others)}) == 4


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"viewer": ["a@example.org"]}, "unknown key: viewer"),
        ({"viewers": "a@example.org"}, "must be a list"),
        ({"viewers": [1]}, "must be a list"),
        ({"viewers": ["example.org"]}, "neither an e-mail address nor @domain"),
        ({"viewers": ["*"]}, "neither"),
        ({"viewers": ["@"]}, "neither"),
        ({"viewers": ["@org"]}, "neither"),
        ({"viewers": ["\u212a@example.org"]}, "neither"),
        ({"hours": 0}, "hours"),
        ({"hours": float("nan")}, "hours"),
        ({"hours": True}, "hours"),
        ({"hours": 1e9}, "hours"),
        ({"contact": 3}, "contact"),
    ],
)
def test_what_is_not_understood_is_refused(section: dict, told: str) -> None:
    with pytest.raises(Misconfigured, match=told):
        Lists.of(section)


def test_every_role_may_what_those_before_it_may() -> None:
    assert Role.VIEWER < Role.TRAINER < Role.INSTRUCTOR
    assert set(rules.NEEDED) == set(rules.IN_WORDS)
    assert {action for action, role in rules.NEEDED.items() if role == Role.INSTRUCTOR} == {"release", "host"}
