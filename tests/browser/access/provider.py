"""An OpenID Connect provider on this computer, from Authlib's server parts: it signs tokens and asks for a password.

It demands what a careful provider does: the authorization code flow with PKCE (RFC 7636, S256) and a nonce, a client
that proves its secret, and the registered address to return to.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin, grants
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import OpenIDCode
from flask import Flask, Response, redirect, request, session
from joserfc.jwk import KeySet, RSAKey
from werkzeug.serving import make_server

PASSWORD = "correct horse"  # noqa: S105 — of made-up accounts


@dataclass
class Client(ClientMixin):
    """The only client: the app. Its address to return to is set when the app's port is known."""

    client_id: str = field(default_factory=lambda: secrets.token_hex(8))
    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    redirect_uri: str = ""

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_allowed_scope(self, scope: str) -> str:
        return " ".join(part for part in scope.split() if part in ("openid", "email", "profile"))

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri == self.redirect_uri

    def check_client_secret(self, client_secret: str) -> bool:
        return secrets.compare_digest(client_secret, self.secret)

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method in ("client_secret_basic", "client_secret_post")

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "authorization_code"


@dataclass
class Person:
    """Somebody with an account here; `claims` are those of the token."""

    claims: dict[str, Any]

    def get_user_id(self) -> str:
        return self.claims["sub"]


@dataclass
class Code:
    """An authorization code that was handed out."""

    code: str
    person: Person
    redirect_uri: str
    scope: str
    nonce: str | None
    code_challenge: str
    code_challenge_method: str
    at: float = field(default_factory=time.time)

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> int:
        return int(self.at)

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> None:
        return None


class Provider:
    """The provider's state: its key, its client, its people by e-mail address, and what it handed out."""

    def __init__(self, people: dict[str, dict[str, Any]]) -> None:
        self.people = {email: Person({"sub": f"id-{email}", "email": email, **more}) for email, more in people.items()}
        self.client = Client()
        self.key = RSAKey.generate_key(2048, {"kid": "local", "use": "sig", "alg": "RS256"})
        self.codes: dict[str, Code] = {}
        self.nonces: set[str] = set()
        self.asked: list[dict[str, str]] = []  # every request for a code
        self.address = ""


class _Grant(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic", "client_secret_post"]

    @property
    def provider(self) -> Provider:
        return self.server.provider

    def save_authorization_code(self, code: str, request: Any) -> None:
        asked = request.payload.data
        self.provider.nonces.add(asked["nonce"])
        self.provider.codes[code] = Code(
            code,
            request.user,
            asked["redirect_uri"],
            asked["scope"],
            asked["nonce"],
            asked["code_challenge"],
            asked["code_challenge_method"],
        )

    def query_authorization_code(self, code: str, client: Client) -> Code | None:
        return self.provider.codes.get(code)

    def delete_authorization_code(self, authorization_code: Code) -> None:
        del self.provider.codes[authorization_code.code]

    def authenticate_user(self, authorization_code: Code) -> Person:
        return authorization_code.person


class _OpenID(OpenIDCode):
    def __init__(self, provider: Provider) -> None:
        super().__init__(require_nonce=True)
        self.provider = provider

    def exists_nonce(self, nonce: str, request: Any) -> bool:
        return nonce in self.provider.nonces

    def resolve_client_private_key(self, client: Client) -> Any:
        return KeySet([self.provider.key])

    def get_client_algorithm(self, client: Client) -> str:
        return "RS256"

    def get_client_claims(self, client: Client) -> dict[str, Any]:
        return {"iss": self.provider.address, "aud": [client.client_id]}

    def generate_user_info(self, user: Person, scope: str) -> dict[str, Any]:
        return user.claims


def _app(provider: Provider) -> Flask:
    app = Flask("provider")
    app.secret_key = secrets.token_hex(16)
    app.config["SESSION_COOKIE_NAME"] = "provider"  # cookies know no port: the app's has another name
    server = AuthorizationServer(
        app,
        query_client=lambda name: provider.client if name == provider.client.client_id else None,
        save_token=lambda token, request: None,
    )
    server.provider = provider
    server.register_grant(_Grant, [CodeChallenge(required=True), _OpenID(provider)])

    @app.get("/.well-known/openid-configuration")
    def discovery() -> dict[str, Any]:
        return {
            "issuer": provider.address,
            "authorization_endpoint": f"{provider.address}/authorize",
            "token_endpoint": f"{provider.address}/token",
            "jwks_uri": f"{provider.address}/keys",
            "end_session_endpoint": f"{provider.address}/end",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
        }

    @app.get("/keys")
    def keys() -> dict[str, Any]:
        return KeySet([provider.key]).as_dict(private=False)

    @app.route("/authorize", methods=["GET", "POST"])
    def authorize() -> Any:
        if request.method == "GET":
            provider.asked.append(request.args.to_dict())
            server.get_consent_grant(end_user=None)  # refuses a request that is not as it should be
            return (
                '<title>Provider</title><form method="post"><label>E-mail <input name="email"></label>'
                '<label>Password <input name="password" type="password"></label><button>Continue</button></form>'
            )
        person = provider.people.get(request.form["email"])
        if person is None or request.form["password"] != PASSWORD:
            return Response("wrong", 403)
        session["email"] = request.form["email"]
        return server.create_authorization_response(grant=server.get_consent_grant(end_user=person), grant_user=person)

    @app.post("/token")
    def token() -> Any:
        return server.create_token_response()

    @app.get("/end")
    def end() -> Any:
        session.clear()
        assert request.args["post_logout_redirect_uri"] == provider.client.redirect_uri
        return redirect(provider.client.redirect_uri)

    return app


@contextlib.contextmanager
def provided(people: dict[str, dict[str, Any]]) -> Iterator[Provider]:
    """A provider on a free port, with these people: further claims by e-mail address."""
    provider = Provider(people)
    server = make_server("127.0.0.1", 0, _app(provider), threaded=True)
    provider.address = f"http://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
