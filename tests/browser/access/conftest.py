"""A server that asks people to sign in, and the provider that it asks."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.access.provider import Provider, provided
from tests.browser.served import serving

VERIFIED = {"email_verified": True}
PEOPLE = {
    "Ada@example.org": VERIFIED | {"name": "Ada *of* the lab"},
    "bea@example.org": VERIFIED | {"name": "Bea"},
    "eve@evil-example.org": VERIFIED,
    "ivo@example.org": {"email_verified": False},
}
ACCESS = """
[access]
viewers = ["@example.org"]
trainers = ["ada@example.org"]
contact = "the office"
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.fspath).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """An OpenID Connect provider on this computer."""
    with provided(PEOPLE) as made:
        yield made


@pytest.fixture(scope="module")
def closed_server(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server with sign-in by the provider, and an empty data folder."""
    folder = tmp_path_factory.mktemp("closed")
    settings = folder / "secrets.toml"
    settings.write_text(
        f"""
[auth]
redirect_uri = "http://localhost:{{port}}/oauth2callback"
cookie_secret = "{secrets.token_urlsafe(32)}"
client_id = "{provider.client.client_id}"
client_secret = "{provider.client.secret}"
server_metadata_url = "{provider.address}/.well-known/openid-configuration"
{ACCESS}""",
        encoding="utf-8",
    )
    with serving(folder / "data", folder / "log.txt", options=("--secrets.files", str(settings))) as address:
        provider.client.redirect_uri = f"{address}/oauth2callback"
        yield address
