"""docs/serving/nginx.conf under a real nginx, in front of two app servers: one address, and a server for each browser.

Every browser of these tests has only the proxy's address. nginx's log says which server answered.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import ssl
import subprocess
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.access.conftest import ACCESS
from tests.browser.access.provider import Provider
from tests.browser.access.test_sign_in import MINE, account, signed_in, ward  # noqa: F401 — `ward` is a fixture
from tests.browser.conftest import FLAGS, program
from tests.browser.served import ROOT, WAIT, Browsers, free_port, listening, listens, serving, settled
from tests.browser.test_analyst import upload
from tests.browser.test_class import a_class, vote

HOST = "leaks.example.org"
ADDRESS = f"https://{HOST}"
COOKIE = "philab_server"
AS_SHIPPED = "as-shipped.txt"  # the log as docs/serving/nginx.conf has it
NOTES = f"{ADDRESS}/cohort?cohort=my+notes"


@dataclass
class Site:
    """Two app servers behind one nginx."""

    apps: tuple[str, str]  # host:port of each
    port: int
    log: Path
    browsers: Browsers
    end_first: Callable[[], None]

    def answered(self) -> list[tuple[str, str, str, str]]:
        """Of every finished request: the app server, the browser's cookie, the status and the path."""
        lines = (line.split(" ", 3) for line in self.log.read_text(encoding="utf-8").splitlines())
        return [(app, cookie, status, path) for app, cookie, status, path in lines]

    def cookie_of(self, app: str) -> str:
        """A cookie that nginx gave to somebody whom it sends to this app server."""
        for _ in range(64):
            (given,) = self._given("/_stcore/health")
            assert self._given("/_stcore/health", given) == [], "a browser keeps its first one"
            if self._app_of(given) == app:
                return given
        raise AssertionError(f"nginx sends nobody to {app}")

    def _given(self, path: str, cookie: str | None = None) -> list[str]:
        """The cookies that nginx gives for a request."""
        headers = {"Host": HOST} if cookie is None else {"Host": HOST, "Cookie": f"{COOKIE}={cookie}"}
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", headers=headers)
        context = ssl._create_unverified_context()  # noqa: S323 — a certificate that was made for this test
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:  # noqa: S310
            told = [one for one in answer.headers.get_all("Set-Cookie", []) if one.startswith(COOKIE)]
        form = rf"{COOKIE}=(\w+); Path=/; Secure; HttpOnly; SameSite=Lax"
        return [re.fullmatch(form, one).group(1) for one in told]

    def _app_of(self, cookie: str) -> str:
        """The app server that has answered a browser with this cookie."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if (found := {app for app, sent, _, _ in self.answered() if sent == cookie}) != set():
                return found.pop()
            time.sleep(0.05)
        raise AssertionError("the request is not in nginx's log")

    def tab(self, app: str | None = None) -> Page:
        """The tab of a browser that shares nothing with others, which nginx sends to this app server; None: to any."""
        page = self.browsers.take(height=900)
        if app is not None:
            page.context.add_cookies([{"name": COOKIE, "value": self.cookie_of(app), "url": ADDRESS}])
        return page


def configured(folder: Path, apps: tuple[str, str], port: int, plain_port: int) -> Path:
    """The committed configuration with this computer's ports, a second server, and a certificate that was just made."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={HOST}"]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)  # noqa: S603
    text = (ROOT / "docs/serving/nginx.conf").read_text(encoding="utf-8")
    for old, new in (
        ("listen 80;", f"listen 127.0.0.1:{plain_port};"),
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        (f"/etc/ssl/{HOST}.pem", str(certificate)),
        (f"/etc/ssl/{HOST}.key", str(key)),
        ("server 127.0.0.1:8501;", " ".join(f"server {app};" for app in apps)),
        (
            "access_log          /var/log/nginx/access.log philab;",
            f"access_log {folder}/access.txt servers; access_log {folder}/{AS_SHIPPED} philab;",
        ),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = folder / "nginx.conf"
    whole.write_text(
        f"{'user root;' if os.geteuid() == 0 else ''}\npid {folder}/pid;\nevents {{}}\nhttp {{\n{temporary}"
        "log_format servers '$upstream_addr $cookie_philab_server $status $request_uri';\n"
        f"access_log {folder}/access.txt servers;\n{text}}}\n",
        encoding="utf-8",
    )
    return whole


@contextlib.contextmanager
def proxied(folder: Path, apps: tuple[str, str], port: int, plain_port: int) -> Iterator[None]:
    """nginx with the committed configuration, for the block."""
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"  # `make test` installs it
    whole = configured(folder, apps, port, plain_port)
    proxy = subprocess.Popen([nginx, "-c", whole, "-g", "daemon off;", "-e", folder / "error.txt"])  # noqa: S603
    try:
        end = time.monotonic() + 60
        while not (listens(proxy, port) and listens(proxy, plain_port)):
            assert proxy.poll() is None and time.monotonic() < end, (folder / "error.txt").read_text()
            time.sleep(0.05)
        yield
    finally:
        proxy.terminate()
        proxy.wait(60)


@pytest.fixture(scope="module")
def site(
    chromium: Browser, provider: Provider, leaky_workspace: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Two servers with one data folder and the same secrets, behind nginx."""
    folder = tmp_path_factory.mktemp("behind-nginx")
    shutil.copytree(leaky_workspace, folder / "data")  # the Lesson needs runs
    provider.client.redirect_uri = f"{ADDRESS}/oauth2callback"
    settings = folder / "secrets.toml"
    settings.write_text(
        f"""
[auth]
redirect_uri = "{provider.client.redirect_uri}"
cookie_secret = "{secrets.token_urlsafe(32)}"
client_id = "{provider.client.client_id}"
client_secret = "{provider.client.secret}"
server_metadata_url = "{provider.address}/.well-known/openid-configuration"
{ACCESS.replace("contact", 'instructors = ["bea@example.org"]' + chr(10) + "contact")}""",
        encoding="utf-8",
    )
    options = ("--secrets.files", str(settings), "--browser.serverAddress", HOST)
    with contextlib.ExitStack() as lives, serving(folder / "data", folder / "second.txt", options=options) as second:
        first = lives.enter_context(serving(folder / "data", folder / "first.txt", options=options))
        apps = tuple(f"127.0.0.1:{address.rpartition(':')[2]}" for address in (first, second))
        port, plain_port = free_port(), free_port()
        with proxied(folder, (apps[0], apps[1]), port, plain_port):
            rules = f"--host-resolver-rules=MAP {HOST}:443 127.0.0.1:{port},MAP {HOST}:80 127.0.0.1:{plain_port}"
            browser = chromium.browser_type.launch(executable_path=program(), args=[*FLAGS, rules])
            browsers = Browsers(browser, ignore_https_errors=True)
            yield Site((apps[0], apps[1]), port, folder / "access.txt", browsers, lives.close)
            browser.close()


def server_cookie(page: Page) -> dict[str, str]:
    """The cookie by which nginx knows where to send this browser, as Playwright takes it."""
    value = next(one["value"] for one in page.context.cookies(ADDRESS) if one["name"] == COOKIE)
    return {"name": COOKIE, "value": value, "url": ADDRESS}


def test_signing_in_uploading_and_deleting_through_the_proxy(site: Site, ward: Path, tmp_path: Path) -> None:  # noqa: F811
    ada, there = site.tab(site.apps[0]), site.tab(site.apps[1])
    answer = ada.goto(f"http://{HOST}/train")
    assert ada.url == f"{ADDRESS}/train" and "max-age" in answer.headers["strict-transport-security"]
    sockets: list[str] = []
    with listening(ada, "websocket", lambda one: sockets.append(one.url)):
        signed_in(ada, NOTES, "Ada@example.org")
        account(ada)
    assert sockets and all(one == f"wss://{HOST}/_stcore/stream" for one in sockets)
    cookies = ada.context.cookies(ADDRESS)
    assert len(cookies) > 2 and all(one["secure"] for one in cookies), "no cookie is sent over plain http"

    ada.goto(NOTES)
    large = tmp_path / "large.csv"
    large.write_text("text,patient_id\n" + "A note of a ward.,7\n" * 100_000, encoding="utf-8")
    upload(ada, 0, large)  # 2 MB: more than nginx takes unless it is told
    expect(ada.get_by_role("button", name="Check these notes")).to_be_visible(timeout=WAIT)
    ada.goto(NOTES)
    upload(ada, 0, ward)
    ada.get_by_role("button", name="Check these notes").click()
    ada.get_by_role("button", name="Use these notes for training").click()
    ada.get_by_role("button", name="I have written it down").click()
    expect(ada.get_by_text(MINE).first).to_be_visible(timeout=WAIT)

    signed_in(there, NOTES, "Ada@example.org")
    expect(there.get_by_text(MINE).first).to_be_visible(timeout=WAIT)
    assert answer.headers["referrer-policy"] == "same-origin"
    log = (site.log.parent / AS_SHIPPED).read_text(encoding="utf-8")
    assert " GET /cohort 200 " in log and "?" not in log, "neither what addresses name nor referrers are logged"
    first, second = (server_cookie(page) for page in (ada, there))
    ada.context.add_cookies([{**first, "value": second["value"]}])  # as if her server had ended
    ada.goto(NOTES)
    expect(ada.get_by_text(MINE).first).to_be_visible(timeout=WAIT)  # still signed in, at the other server

    settled(ada)
    ada.get_by_role("button", name="Delete these notes and their models").click()
    ada.get_by_role("button", name="Delete now").click()
    expect(ada.get_by_text(MINE)).to_have_count(0, timeout=WAIT)
    there.context.add_cookies([{**second, "value": first["value"]}])
    there.goto(NOTES)  # at the server that checked them and has them in memory
    expect(there.get_by_text("Synthetic patients: no real people").first).to_be_visible(timeout=WAIT)
    settled(there)
    expect(there.get_by_text(MINE)).to_have_count(0, timeout=WAIT)
    account(ada)
    ada.get_by_role("button", name="Sign out").click()
    expect(ada.get_by_role("button", name="Sign in")).to_be_visible(timeout=WAIT)
    for page in (ada, there):
        site.browsers.give_back(page)


def test_a_class_joined_through_the_proxy_is_one_class(site: Site) -> None:
    bea, students = site.tab(), [site.tab(app) for app in site.apps]
    signed_in(bea, f"{ADDRESS}/lesson?presenter=1&step=1", "bea@example.org")
    settled(bea)
    code = a_class(bea)
    for number, student in enumerate(students, 1):
        signed_in(student, f"{ADDRESS}/lesson?room={code}&step=1&screen=vote", "Ada@example.org")
        expect(bea.get_by_text(f"{number} browser{'s' * (number > 1)} joined")).to_be_visible(timeout=WAIT)
    for number, student in enumerate(students, 1):
        vote(student, 0)
        expect(student.get_by_text("Your vote is counted")).to_be_visible(timeout=WAIT)
        expect(bea.get_by_text(f"{number} prediction{'s' * (number > 1)} so far")).to_be_visible(timeout=WAIT)
    students[0].reload()
    expect(students[0].get_by_text("Your vote is counted")).to_be_visible(timeout=WAIT)
    for page in (bea, *students):
        site.browsers.give_back(page)


def test_every_browser_stays_with_its_server(site: Site) -> None:
    """After the tests above: their whole traffic, the sign-ins and uploads included."""
    page = site.tab()
    page.goto(ADDRESS)
    expect(page.get_by_role("button", name="Sign in")).to_be_visible(timeout=WAIT)
    (given,) = (one for one in page.context.cookies(ADDRESS) if one["name"] == COOKIE)
    assert given["httpOnly"] and given["secure"] and given["sameSite"] == "Lax"
    site.browsers.give_back(page)  # nginx writes a websocket into its log when it ends
    end = time.monotonic() + 60
    while (given["value"], "/_stcore/stream") not in {(one[1], one[3]) for one in site.answered()}:
        assert time.monotonic() < end, "the websocket is not in nginx's log"
        time.sleep(0.2)
    servers = defaultdict(set)
    for app, cookie, _, _ in site.answered():
        if cookie != "-":
            servers[cookie].add(app)
    assert all(len(apps) == 1 for apps in servers.values())
    sockets = [one for one in site.answered() if one[3].startswith("/_stcore/stream")]
    assert {status for _, _, status, _ in sockets} == {"101"} and {app for app, *_ in sockets} == set(site.apps)
    assert all(cookie != "-" for _, cookie, _, _ in sockets), "the page itself has brought the cookie"


def test_a_class_goes_on_when_one_of_the_servers_ends(site: Site) -> None:
    """The last test here: it ends a server."""
    bea, student = site.tab(site.apps[1]), site.tab(site.apps[0])
    signed_in(bea, f"{ADDRESS}/lesson?presenter=1&step=1", "bea@example.org")
    settled(bea)
    code = a_class(bea)
    signed_in(student, f"{ADDRESS}/lesson?room={code}&step=1&screen=vote", "Ada@example.org")
    vote(student, 0)
    expect(bea.get_by_text("1 prediction so far")).to_be_visible(timeout=WAIT)
    site.end_first()
    student.reload()
    expect(student.get_by_text("Your vote is counted")).to_be_visible(timeout=WAIT)
    expect(bea.get_by_text("1 browser joined")).to_be_visible(timeout=WAIT)
    for page in (bea, student):
        site.browsers.give_back(page)
