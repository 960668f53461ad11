"""Signing in by a real provider: who comes in, whose notes they see, and what signing out ends."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from core.corpus.synthetic.hospital import build
from core.spec import CORPUS_PRESETS
from tests.browser.access.provider import PASSWORD, Provider
from tests.browser.served import WAIT, fits, no_traceback, settled
from tests.browser.test_analyst import upload

MINE = re.compile("Synthetic patients, and your notes")


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of notes under the usual column names."""
    notes = build(CORPUS_PRESETS["smoke"]).notes
    notes = notes[notes["split"] != "canary"][["text", "patient_id", "note_type"]]
    path = tmp_path_factory.mktemp("ward") / "ward.csv"
    notes.to_csv(path, index=False)
    return path


def signed_in(page: Page, address: str, email: str) -> None:
    """Open the app, follow its only button to the provider, give the password there, and come back."""
    page.goto(address)
    button = page.get_by_role("button", name="Sign in")
    expect(button).to_be_visible(timeout=WAIT)
    settled(page)
    button.click()
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url(re.compile("^" + re.escape("/".join(address.split("/")[:3]))))


def buttons(page: Page) -> list[str]:
    """The buttons of the page without their icons' names, and without Streamlit's own menu of themes."""
    words = page.locator("[data-testid=stMain]").get_by_role("button").all_inner_texts()
    return [text.split("\n")[-1] for text in words]


def account(page: Page) -> None:
    """Open the account menu: it closes again where the page that was wanted before the sign-in is drawn meanwhile."""
    for _ in range(6):
        settled(page)
        page.locator(".st-key-account button").click()
        with contextlib.suppress(AssertionError):
            return expect(page.get_by_text("Your role is", exact=False)).to_be_visible(timeout=WAIT / 6)
    raise AssertionError("the account menu does not open")


def test_nothing_is_drawn_before_signing_in(browsers: Callable[..., Page], closed_server: str, shot) -> None:
    page = browsers()
    for path in ("", "/train", "/cohort?cohort=my+notes"):
        page.goto(closed_server + path)
        expect(page.get_by_role("button", name="Sign in")).to_be_visible(timeout=WAIT)
        settled(page)
        assert buttons(page) == ["Sign in"]
        assert page.locator("[data-testid=stTopNavLink], [data-testid=stTopNavSection]").count() == 0
    assert [one["id"] for one in Axe().run(page).response["violations"]] == []
    for theme, width in (("light", 1280), ("dark", 390)):
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 800})
        shot(page, f"sign-in-{theme}")


def test_people_keep_their_notes_and_signing_out_ends_access_everywhere(
    browsers: Callable[..., Page], closed_server: str, provider: Provider, ward: Path, shot
) -> None:
    ada = browsers()
    signed_in(ada, closed_server, "Ada@example.org")
    asked = provider.asked[-1]
    assert asked["code_challenge_method"] == "S256" and asked["nonce"] and asked["response_type"] == "code"
    account(ada)
    expect(ada.get_by_text("Ada *of* the lab").first).to_be_visible(timeout=WAIT)  # as typed, not in italics
    expect(ada.get_by_text("trainer", exact=True)).to_be_visible(timeout=WAIT)
    shot(ada, "account")
    ada.emulate_media(color_scheme="dark")
    ada.set_viewport_size({"width": 390, "height": 800})
    shot(ada, "account-phone")
    fits(ada, 390)
    ada.set_viewport_size({"width": 1280, "height": 800})
    ada.goto(f"{closed_server}/cohort?cohort=my+notes")
    upload(ada, 0, ward)
    ada.get_by_role("button", name="Check these notes").click()
    ada.get_by_role("button", name="Use these notes for training").click()
    ada.get_by_role("button", name="I have written it down").click()
    expect(ada.get_by_text(MINE).first).to_be_visible(timeout=WAIT)
    ada.reload()
    expect(ada.get_by_text(MINE).first).to_be_visible(timeout=WAIT)

    elsewhere, bea = browsers(), browsers()
    signed_in(elsewhere, closed_server, "Ada@example.org")
    expect(elsewhere.get_by_text(MINE).first).to_be_visible(timeout=WAIT)
    signed_in(bea, f"{closed_server}/cohort?cohort=my+notes", "bea@example.org")  # led there after the sign-in
    expect(bea).to_have_url(re.compile("/cohort.cohort=my.notes$"), timeout=WAIT)
    expect(bea.get_by_text("Synthetic patients: no real people").first).to_be_visible(timeout=WAIT)
    expect(bea.get_by_text("you need the role of a trainer", exact=False).first).to_be_visible(timeout=WAIT)
    settled(bea)
    assert bea.get_by_text("ward.csv").count() == 0 and bea.locator("[data-testid=stFileUploader]").count() == 0
    bea.goto(f"{closed_server}/train")
    expect(bea.get_by_role("button", name="Train", exact=True)).to_be_disabled(timeout=WAIT)

    second = ada.context.new_page()
    second.set_default_timeout(WAIT)
    second.goto(f"{closed_server}/train")  # looks for new jobs by itself
    expect(second.get_by_role("heading", name="Training queue")).to_be_visible(timeout=WAIT)
    copied = ada.context.cookies()
    account(ada)
    ada.get_by_role("button", name="Sign out").click()
    for page in (ada, second):
        expect(page.get_by_role("button", name="Sign in")).to_be_visible(timeout=WAIT)
        expect(page.get_by_text(MINE)).to_have_count(0, timeout=WAIT)
        no_traceback(page)
    thief = browsers()
    thief.context.add_cookies(copied)
    thief.goto(closed_server)
    expect(thief.get_by_role("button", name="Sign in")).to_be_visible(timeout=WAIT)
    settled(elsewhere)
    elsewhere.reload()
    expect(elsewhere.get_by_text(MINE).first).to_be_visible(timeout=WAIT)  # another sign-in, not ended


@pytest.mark.parametrize(
    ("email", "told"),
    [("eve@evil-example.org", "is not on this server's list. Ask the office"), ("ivo@example.org", "has not verified")],
)
def test_others_read_one_sentence(
    browsers: Callable[..., Page], closed_server: str, email: str, told: str, shot
) -> None:
    page = browsers()
    signed_in(page, closed_server, email)
    expect(page.get_by_text(told, exact=False)).to_be_visible(timeout=WAIT)
    settled(page)
    assert buttons(page) == ["Sign out"]
    shot(page, f"refused-{email.partition('@')[0]}")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible(timeout=WAIT)
