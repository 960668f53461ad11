"""docs/serving/nginx.conf under a real nginx, by hand: `python -m tests.browser.access.behind_nginx`.

It needs nginx and openssl, which the tests do not, so it is none of them. It signs in through the proxy, uploads a
file that is larger than nginx's own limit, waits longer than nginx's usual time on a page, and signs out.
"""

from __future__ import annotations

import logging
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from tests.browser.access.conftest import ACCESS, PEOPLE
from tests.browser.access.provider import provided
from tests.browser.access.test_sign_in import account, signed_in
from tests.browser.conftest import FLAGS
from tests.browser.served import ROOT, WAIT, serving, settled
from tests.browser.test_analyst import upload

HOST = "leaks.example.org"
ADDRESS = f"https://{HOST}"
IDLE_SECONDS = 70  # nginx ends an idle websocket after 60 s unless proxy_read_timeout says otherwise


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def configured(folder: Path, app_port: str, port: int, plain_port: int) -> Path:
    """The committed configuration with this computer's ports and a certificate that was just made."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={HOST}"]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)  # noqa: S603
    text = (ROOT / "docs/serving/nginx.conf").read_text(encoding="utf-8")
    for old, new in (
        ("listen 80;", f"listen {plain_port};"),
        ("listen 443 ssl;", f"listen {port} ssl;"),
        (f"/etc/ssl/{HOST}.pem", str(certificate)),
        (f"/etc/ssl/{HOST}.key", str(key)),
        ("http://127.0.0.1:8501", f"http://127.0.0.1:{app_port}"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    whole = folder / "nginx.conf"
    whole.write_text(
        f"user root;\npid {folder}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{text}}}\n", encoding="utf-8"
    )
    return whole


def main() -> None:
    """Check the configuration, and print what was seen."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # the provider's requests
    nginx, chromium = shutil.which("nginx") or "/usr/sbin/nginx", shutil.which("chromium")
    folder = Path(tempfile.mkdtemp())
    settings = folder / "secrets.toml"
    options = ("--secrets.files", str(settings), "--browser.serverAddress", HOST)
    with provided(PEOPLE) as provider, sync_playwright() as playwright:
        provider.client.redirect_uri = f"{ADDRESS}/oauth2callback"
        settings.write_text(
            f'[auth]\nredirect_uri = "{provider.client.redirect_uri}"\ncookie_secret = "{secrets.token_urlsafe(32)}"\n'
            f'client_id = "{provider.client.client_id}"\nclient_secret = "{provider.client.secret}"\n'
            f'server_metadata_url = "{provider.address}/.well-known/openid-configuration"\n{ACCESS}',
            encoding="utf-8",
        )
        with serving(folder / "data", folder / "log.txt", options=options) as app:
            port, plain_port = free_port(), free_port()
            whole = configured(folder, app.rpartition(":")[2], port, plain_port)
            proxy = subprocess.Popen([nginx, "-c", whole, "-g", "daemon off;", "-e", folder / "error.log"])  # noqa: S603
            rules = f"--host-resolver-rules=MAP {HOST}:443 127.0.0.1:{port},MAP {HOST}:80 127.0.0.1:{plain_port}"
            browser = playwright.chromium.launch(executable_path=chromium, args=[*FLAGS, rules])
            try:
                page = browser.new_context(ignore_https_errors=True).new_page()
                page.set_default_timeout(WAIT)
                answer = page.goto(f"http://{HOST}/train")
                print("http leads to", page.url, answer.status, answer.headers.get("strict-transport-security"))
                sockets: list[str] = []
                page.on("websocket", lambda one: sockets.append(one.url))
                signed_in(page, ADDRESS, "Ada@example.org")
                account(page)
                print("signed in by", sockets[-1])
                print("cookies", sorted((one["name"], one["secure"]) for one in page.context.cookies(ADDRESS)))
                page.goto(f"{ADDRESS}/cohort?cohort=my+notes")
                ward = folder / "ward.csv"
                ward.write_text("text,patient_id\n" + "A note of a ward.,7\n" * 300_000, encoding="utf-8")
                upload(page, 0, ward)
                expect(page.get_by_role("button", name="Check these notes")).to_be_visible(timeout=WAIT)
                print("uploaded", ward.stat().st_size, "bytes")
                before = len(sockets)
                time.sleep(IDLE_SECONDS)
                settled(page)
                print("websockets opened again while idle for", IDLE_SECONDS, "s:", len(sockets) - before)
                account(page)
                page.get_by_role("button", name="Sign out").click()
                expect(page.get_by_role("button", name="Sign in")).to_be_visible(timeout=WAIT)
                print("signed out at", re.sub(r"\?.*", "", page.url))
            finally:
                browser.close()
                proxy.terminate()
                proxy.wait()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
