"""Whether sign-in is asked for, who is let in, and that a doubtful configuration lets nobody in."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import streamlit as st
from streamlit.runtime.secrets import Secrets
from streamlit.testing.v1 import AppTest

from pages.parts.access import rules, viewer
from pages.parts.common import shell
from pages.parts.lesson import classroom_link
from tests.pages.access.conftest import ACCESS, AUTH, SECRETS, person
from tests.pages.visit import ROOT, WAIT, said, visit


def labels(app: AppTest) -> set[str]:
    return {button.label for button in app.button}


def test_without_configuration_nothing_changes_and_authlib_is_not_loaded() -> None:
    app = visit("train")
    assert not {"Sign in", "Sign out"} & labels(app) and "Your role" not in said(app)
    look = (
        "import sys; from pages.parts.common import shell;"
        " shell.gate.viewer.standing(); print('authlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("page", ["home", *(name for name, *_ in shell._PAGES if name != "home")])
def test_no_page_draws_anything_for_those_who_are_not_signed_in(opened, page: str) -> None:
    app = opened(page, user={"is_logged_in": False})
    assert labels(app) == {"Sign in"} and [title.value for title in app.title] == ["PHI Leak Lab"]
    assert said(app) == "This server is open to people on its list. Sign in to continue."
    assert not (app.selectbox or app.expander or app.dataframe or app.get("plotly_chart") or app.caption or app.info)


@pytest.mark.parametrize("page", ["train", "ledger"])
def test_a_page_that_starts_without_the_app_asks_too(page: str) -> None:
    """Streamlit runs pages/train.py by itself if its address comes first after a start."""
    app = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=WAIT)
    app.user, app.secrets = {"is_logged_in": False}, SECRETS
    app.run()
    assert not app.exception and labels(app) == {"Sign in"}


def test_who_is_let_in_sees_their_name_as_it_was_sent_and_their_role(opened) -> None:
    app = opened("train", user=person("trainer", name="**A** <b>"))
    assert "Sign out" in labels(app) and "Your role is **trainer**" in said(app)
    assert "**A**" not in said(app).replace("****", "") and "<b>" not in said(app).replace("\\<b", "")


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        (person(email="eve@evil-example.org"), r"is not on this server's list. Ask the office to add you."),
        (person(email_verified=False), "has not verified your e-mail address. Ask the office."),
        (person(email="viewer@example.org@evil.test"), "has not verified"),
    ],
)
def test_others_read_one_sentence_and_can_leave(opened, claims: dict, told: str) -> None:
    app = opened("train", user=claims)
    (error,) = app.error
    assert told in error.value and labels(app) == {"Sign out"} and not said(app)


@pytest.mark.parametrize(
    "secrets",
    [
        {"access": ACCESS},
        {"auth": AUTH},
        {"auth": "yes", "access": ACCESS},
        {"auth": AUTH | {"cookie_secret": "short"}, "access": ACCESS},
        {"auth": {"cookie_secret": "s" * 40}, "access": ACCESS},
        {"auth": AUTH, "access": ACCESS | {"admin": []}},
        {"auth": AUTH, "access": ["@example.org"]},
        {"auth": AUTH, "access": {"viewers": {"a": "@example.org"}}},
    ],
)
def test_a_configuration_that_is_not_whole_lets_nobody_in(opened, caplog, secrets: dict) -> None:
    app = opened("train", user=person("instructor"), secrets=secrets)
    (error,) = app.error
    assert error.value.startswith("Sign-in is not set up correctly") and labels(app) == {"Sign out"} and not said(app)
    assert "nobody is let in:" in caplog.text and "cookie_secret" not in error.value


@pytest.mark.parametrize("change", [{"iat": time.time() - 13 * 3600}, {"iat": None}, {"is_logged_in": False}])
def test_a_sign_in_that_ended_is_asked_for_again(opened, change: dict) -> None:
    assert labels(opened("train", user=person() | change)) == {"Sign in"}


def configured(monkeypatch: pytest.MonkeyPatch, path: Path, text: str) -> None:
    """Streamlit reads its secrets from this file."""
    path.write_text(text, encoding="utf-8")
    option = st.get_option
    monkeypatch.setattr(st, "get_option", lambda name: [str(path)] if name == "secrets.files" else option(name))
    monkeypatch.setattr("streamlit.config.get_option", st.get_option)
    monkeypatch.setattr(st, "secrets", Secrets())


def test_a_damaged_file_of_secrets_lets_nobody_in(monkeypatch, tmp_path) -> None:
    configured(monkeypatch, tmp_path / "secrets.toml", "[auth\n")
    now = viewer.standing()
    assert (now.admitted, now.why) == (False, "misconfigured") and "cannot be read" in now.problem


def test_a_file_of_secrets_that_is_emptied_while_serving_opens_nothing(monkeypatch, tmp_path) -> None:
    assert viewer.standing().admitted, "there is none"
    configured(monkeypatch, tmp_path / "secrets.toml", "[access]\n")
    assert not viewer.standing().admitted
    configured(monkeypatch, tmp_path / "secrets.toml", "")
    assert not viewer.standing().admitted


def test_who_is_taken_off_the_list_is_out_whatever_streamlit_remembers(monkeypatch, tmp_path) -> None:
    """Streamlit's own copy is read once here and never again, as when its watcher has ended."""
    path, whole = tmp_path / "secrets.toml", f'[auth]\ncookie_secret = "{"s" * 40}"\nclient_id = "lab"\n[access]\n'
    ada = rules.address(person()) or ""
    configured(monkeypatch, path, f'{whole}viewers = ["{ada}"]\n')
    monkeypatch.setattr(viewer, "_claims", person)
    assert st.secrets.to_dict() and viewer.standing().admitted
    path.write_text("[auth\n", encoding="utf-8")
    assert viewer.standing().why == "misconfigured"
    path.write_text(f'{whole}viewers = ["{ada}"]\n', encoding="utf-8")
    assert viewer.standing().admitted
    path.write_text(f"{whole}viewers = []\n", encoding="utf-8")
    assert viewer.standing().why == "unknown"
    path.unlink()
    assert "access" in st.secrets.to_dict() and viewer.standing().why == "misconfigured"


def test_a_replaced_file_counts_also_if_it_is_older(monkeypatch, tmp_path) -> None:
    import os

    path, auth = tmp_path / "secrets.toml", f'[auth]\ncookie_secret = "{"s" * 40}"\nclient_id = "lab"\n'
    configured(monkeypatch, path, f'{auth}[access]\nviewers = ["viewer@example.org"]\n')
    monkeypatch.setattr(viewer, "_claims", person)
    assert viewer.standing().admitted
    backup = tmp_path / "backup.toml"
    backup.write_text(f'{auth}[access]\nviewers = ["another@example.org"]\n', encoding="utf-8")
    os.utime(backup, (1.0, 1.0))
    os.replace(backup, path)
    assert viewer.standing().why == "unknown"


def test_headers_that_override_the_cookie_let_nobody_in(monkeypatch, tmp_path) -> None:
    option = st.get_option
    headers = {"server.trustedUserHeaders": {"X-Email": "email"}}
    monkeypatch.setattr(st, "get_option", lambda name: headers.get(name) or option(name))
    monkeypatch.setattr(viewer, "_secrets", lambda: {"auth": AUTH, "access": ACCESS})
    monkeypatch.setattr(viewer, "_claims", person)
    now = viewer.standing()
    assert now.why == "misconfigured" and "trustedUserHeaders" in now.problem


def test_a_sign_out_by_another_server_of_the_same_folder_counts_at_once(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(viewer, "_secrets", lambda: {"auth": AUTH, "access": ACCESS})
    monkeypatch.setattr(viewer, "_claims", person)
    assert viewer.standing().admitted
    (tmp_path / viewer.ENDED).mkdir(exist_ok=True)
    (tmp_path / viewer.ENDED / rules.sign_in_of(person())).touch()
    assert viewer.standing().why == "signed out"


def test_a_file_made_when_a_button_is_pressed_asks_again(monkeypatch) -> None:
    secrets = {"auth": AUTH, "access": ACCESS}
    monkeypatch.setattr(viewer, "_secrets", lambda: secrets)
    monkeypatch.setattr(viewer, "_claims", person)
    made = viewer.later(lambda: "file")
    monkeypatch.setattr(viewer, "_claims", dict)  # outside of a script nobody is signed in
    assert made() == "file"
    secrets["access"] = {"viewers": []}
    with pytest.raises(viewer.Refused):
        made()


def test_a_full_disk_does_not_keep_anybody_signed_in(monkeypatch) -> None:
    out = []
    monkeypatch.setattr(viewer, "_claims", person)
    monkeypatch.setattr(st, "logout", lambda: out.append(True))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(viewer, "create", full)
    with pytest.raises(OSError, match="No space"):
        viewer.sign_out()
    assert out == [True]


def test_the_lists_can_be_a_file_that_is_read_again(monkeypatch, tmp_path, opened) -> None:
    path = tmp_path / "access.toml"
    monkeypatch.setenv("PHILAB_ACCESS", str(path))
    assert opened("train", user=person(), secrets={"auth": AUTH}).error[0].value.startswith("Sign-in is not set up")
    path.write_text('[access]\nviewers = ["viewer@example.org"]\n', encoding="utf-8")
    app = opened("train", user=person(), secrets={"auth": AUTH})
    assert "Sign out" in labels(app) and "Your role is **viewer**" in said(app)
    path.write_text("[access]\n", encoding="utf-8")
    assert "is not on this server's list" in app.run().error[0].value


def test_signing_out_ends_every_copy_of_this_sign_in_also_after_a_restart(opened, monkeypatch, tmp_path) -> None:
    tab, other, elsewhere = (opened("train", user=person(nonce=nonce)) for nonce in ("a", "a", "b"))
    tab.button(key="sign-out").click().run()
    assert labels(tab) == labels(other.run()) == {"Sign in"}
    assert "Sign out" in labels(elsewhere.run())
    process = viewer._Process()
    monkeypatch.setattr(viewer, "_process", lambda: process)
    assert labels(opened("train", user=person(nonce="a"))) == {"Sign in"}
    folder = tmp_path / viewer.ENDED
    assert folder.stat().st_mode & 0o77 == 0 and len(list(folder.iterdir())) == 1


def test_ended_sign_ins_are_forgotten_when_no_cookie_can_be_left(tmp_path) -> None:
    import os

    folder = tmp_path / viewer.ENDED
    folder.mkdir()
    for name, age in (("old", rules.MOST_HOURS * 3600 + 60), ("new", 60)):
        (folder / name).touch()
        os.utime(folder / name, (time.time() - age,) * 2)
    assert viewer._ended() == {"new"} and [path.name for path in folder.iterdir()] == ["new"]


@pytest.mark.parametrize(
    ("redirect", "address"),
    [
        ("https://leaks.example.org/oauth2callback", "https://leaks.example.org"),
        ("https://leaks.example.org:8443/lab/oauth2callback", "https://leaks.example.org:8443/lab"),
        ("http://localhost:8501/oauth2callback", None),
        ("http://127.0.0.1:8501/oauth2callback", None),
        (None, None),
    ],
)
def test_a_class_is_joined_at_the_address_to_which_people_return(monkeypatch, redirect, address) -> None:
    monkeypatch.setattr(viewer, "_secrets", lambda: {"auth": {"redirect_uri": redirect}} if redirect else {})
    monkeypatch.setattr(classroom_link, "listens_only_here", lambda: True)
    assert viewer.public_address() == address
    assert classroom_link.join_url("ABCDE") == (f"{address}/lesson?room=ABCDE" if address else None)


def test_several_providers_have_a_button_each(opened) -> None:
    named = {"cookie_secret": "s" * 40, "one": {"client_id": "a"}, "two": {"client_id": "b"}, "note": {"x": "y"}}
    app = opened("train", user={}, secrets={"auth": named, "access": ACCESS})
    assert labels(app) == {"Sign in with one", "Sign in with two"}
