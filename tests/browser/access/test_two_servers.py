"""Two app servers on one data folder, addressed one by one: notes and classes are the same on both.

docs/serving.md says what else is, in a table. Each server has an address of its own here, and Streamlit takes a sign-in
for the address that it was made at alone. So Ada signs in at each, with a browser of her own for each.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.access.conftest import ACCESS
from tests.browser.access.provider import Provider
from tests.browser.access.test_sign_in import MINE, signed_in, ward  # noqa: F401 — `ward` is a fixture
from tests.browser.served import WAIT, serving, settled
from tests.browser.test_analyst import upload
from tests.browser.test_class import a_class, vote

NOTES = "/cohort?cohort=my+notes"


@pytest.fixture
def servers(provider: Provider, leaky_workspace: Path, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Addresses of two servers with the same data folder and the same secrets."""
    shutil.copytree(leaky_workspace, tmp_path / "data")  # the Lesson needs runs
    settings = tmp_path / "secrets.toml"
    settings.write_text(
        f"""
[auth]
redirect_uri = "http://localhost:{{port}}/oauth2callback"
cookie_secret = "{secrets.token_urlsafe(32)}"
client_id = "{provider.client.client_id}"
client_secret = "{provider.client.secret}"
server_metadata_url = "{provider.address}/.well-known/openid-configuration"
{ACCESS.replace("contact", 'instructors = ["bea@example.org"]' + chr(10) + "contact")}""",
        encoding="utf-8",
    )
    options = ("--secrets.files", str(settings))
    with (
        serving(tmp_path / "data", tmp_path / "first.txt", options=options) as first,
        serving(tmp_path / "data", tmp_path / "second.txt", options=options) as second,
    ):
        yield first, second


def test_notes_and_a_class_are_the_same_on_both(
    browsers: Callable[[], Page],
    servers: tuple[str, str],
    provider: Provider,
    ward: Path,  # noqa: F811
) -> None:
    first, second = servers
    ada, there, bea = browsers(), browsers(), browsers()
    provider.client.redirect_uri = f"{first}/oauth2callback"
    signed_in(ada, first + NOTES, "Ada@example.org")
    upload(ada, 0, ward)
    ada.get_by_role("button", name="Check these notes").click()
    ada.get_by_role("button", name="Use these notes for training").click()
    ada.get_by_role("button", name="I have written it down").click()
    expect(ada.get_by_text(MINE).first).to_be_visible(timeout=WAIT)

    provider.client.redirect_uri = f"{second}/oauth2callback"
    signed_in(there, second + NOTES, "Ada@example.org")
    expect(there.get_by_text(MINE).first).to_be_visible(timeout=WAIT)

    provider.client.redirect_uri = f"{first}/oauth2callback"
    signed_in(bea, f"{first}/lesson?presenter=1&step=1", "bea@example.org")
    settled(bea)
    code = a_class(bea)
    students = []
    for address, hers, joined in ((second, there, "1 browser joined"), (first, ada, "2 browsers joined")):
        students.append(hers.context.new_page())
        students[-1].set_default_timeout(WAIT)
        students[-1].goto(f"{address}/lesson?room={code}&step=1&screen=vote")
        expect(bea.get_by_text(joined)).to_be_visible(timeout=WAIT)
    for student, count in zip(students, ("1 prediction so far", "2 predictions so far"), strict=True):
        vote(student, 0)
        expect(student.get_by_text("Your vote is counted")).to_be_visible(timeout=WAIT)
        expect(bea.get_by_text(count)).to_be_visible(timeout=WAIT)
    for student in students:
        student.close()

    settled(ada)
    ada.get_by_role("button", name="Delete these notes and their models").click()
    ada.get_by_role("button", name="Delete now").click()
    expect(ada.get_by_text(MINE)).to_have_count(0, timeout=WAIT)
    there.reload()
    settled(there)
    expect(there.get_by_text(re.compile("Synthetic patients|Check these notes|Your notes")).first).to_be_visible()
    expect(there.get_by_text(MINE)).to_have_count(0, timeout=WAIT)
