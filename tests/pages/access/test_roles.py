"""What each role may do: buttons say it, and what starts work asks again."""

from __future__ import annotations

import ast
import re

import pytest

from core.jobs.engine import Engine, Job
from core.spec import RunSpec
from pages.parts.access import gate, rules, viewer
from pages.parts.access.rules import Role
from pages.parts.session import classroom, owner
from tests.pages.access.conftest import person
from tests.pages.visit import ROOT

TINY = {"cohort": "tiny", "batch_private_16": "16", "epochs_private_45": "2"}
ROLES = ("viewer", "trainer", "instructor")


@pytest.fixture
def asked(monkeypatch) -> list[RunSpec]:
    """What was submitted; nothing is trained."""
    specs: list[RunSpec] = []

    def submit(self, spec, user=None):
        specs.append(spec)
        return Job(spec.run_id, spec, "queued", "", 0.0, 0)

    monkeypatch.setattr(Engine, "warm", lambda self: None)
    monkeypatch.setattr(Engine, "submit", submit)
    return specs


def as_one(role: str):
    """A standing with this role."""
    return lambda: viewer.Standing(True, Role[role.upper()], owner=f"user-{role}")


@pytest.mark.parametrize("role", ROLES)
def test_trainers_train_and_a_pressed_button_of_a_viewer_starts_nothing(opened, asked, monkeypatch, role: str) -> None:
    sentence = "To train a model, you need the role of a trainer. Ask the server's administrator."
    button = opened("train", user=person(role), **TINY).button(key="train")
    assert (button.disabled, button.help) == ((True, sentence) if role == "viewer" else (False, ""))
    monkeypatch.setattr(viewer, "locked", lambda action: {})  # as on a page from before the role was taken away
    app = opened("train", user=person(role), **TINY)
    app.button(key="train").click().run()
    assert not app.exception and len(asked) == (role != "viewer")
    assert [error.value for error in app.error] == ([sentence] if role == "viewer" else [])


@pytest.mark.parametrize("role", ROLES)
def test_trainers_upload(opened, role: str) -> None:
    app = opened("cohort", user=person(role), cohort="my notes")
    assert bool(app.get("file_uploader")) == (role != "viewer")
    told = [info.value for info in app.info]
    assert (told == ["To upload notes, you need the role of a trainer. Ask the server's administrator."]) == (
        role == "viewer"
    )


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_instructors_open_a_class_and_record_releases(opened, data, monkeypatch, role: str) -> None:
    lesson = opened("lesson", user=person(role))
    assert lesson.button(key="class-open").disabled == (role != "instructor")
    with monkeypatch.context() as patch:
        patch.setattr(viewer, "locked", lambda action: {})
        lesson = opened("lesson", user=person(role))
        lesson.button(key="class-open").click().run()
    assert not lesson.exception and ("class_room" in lesson.session_state) == (role == "instructor")
    ledger = opened("ledger", user=person(role))
    shown = next(button for button in ledger.button if button.label == "Show the effect on the totals")
    assert shown.disabled == (role != "instructor")


def test_everybody_may_everything_where_nobody_signs_in() -> None:
    assert all(viewer.may(action) and viewer.locked(action) == {} for action in rules.NEEDED)
    assert viewer.instructs() is None


@pytest.mark.parametrize("role", ROLES)
def test_each_action_needs_its_role(monkeypatch, role: str) -> None:
    monkeypatch.setattr(viewer, "standing", as_one(role))
    for action, needed in rules.NEEDED.items():
        if Role[role.upper()] >= needed:
            viewer.require(action)
        else:
            with pytest.raises(viewer.Refused, match=f"the role of an? {needed.word}"):
                viewer.require(action)
            assert viewer.locked(action)["disabled"] and viewer.refused(action)
    assert viewer.instructs() == (role == "instructor")


def test_a_host_who_is_no_instructor_any_more_hosts_nothing(opened, monkeypatch) -> None:
    code, key = classroom.classroom().open()
    monkeypatch.setattr("streamlit.session_state", {"class_room": code, "class_host": key})
    for role in ROLES:
        monkeypatch.setattr(viewer, "standing", as_one(role))
        assert classroom.host_key() == (key if role == "instructor" else None)


def test_people_have_owners_of_their_own_and_nobody_has_one_after_signing_out(monkeypatch) -> None:
    claims = [person("ada"), person("ada", iat=1.0, email="new@example.org"), person("bea")]
    names = [rules.owner_of(one) for one in claims]
    assert names[0] == names[1] != names[2]
    monkeypatch.setattr(viewer, "standing", lambda: viewer.Standing(True, why="signed out"))
    with pytest.raises(viewer.Refused):
        owner.owner()


# Every start of work ---------------------------------------------------------------------------------------------

STARTS = {  # what starts work or changes what is kept, and the action it is
    r"(monitor\.)?engine\(\)\.submit": "train",
    r"(monitor\.)?engine\(\)\.submit_audit": "audit",
    r"reading\.wait": "gradients",
    r"works\[.*\]\.start": "forget",
    r"CHECKS\.start": "upload",
    r"keep": "upload",
    r"cleanup\.remove": "delete",
    r"\w*ledger\.enter": "release",
    r"classroom\(\)\.open": "host",
}


def calls(function: ast.AST) -> list[tuple[int, str, list[ast.expr]]]:
    return [
        (node.lineno, ast.unparse(node.func), node.args) for node in ast.walk(function) if isinstance(node, ast.Call)
    ]


def test_everything_that_starts_work_asks_for_the_role_first() -> None:
    found = dict.fromkeys(STARTS, 0)
    for path in (ROOT / "pages").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        guarded = {
            line
            for function in functions
            for line, name, _ in calls(function)
            if (action := next((STARTS[start] for start in STARTS if re.fullmatch(start, name)), None))
            and any(
                guard in ("viewer.require", "viewer.refused", "viewer.may")
                and asked[0].value == action  # type: ignore[attr-defined]
                and at < line
                for at, guard, asked in calls(function)
            )
        }
        for line, name, _ in calls(tree):
            start = next((start for start in STARTS if re.fullmatch(start, name)), None)
            if start is not None:
                found[start] += 1
                assert line in guarded, f"{path}:{line} starts work and does not ask for the role"
    assert all(found.values()), found


def test_every_part_that_is_drawn_again_by_itself_asks_who_is_there() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "pages").rglob("*.py")}
    assert [name for name, text in texts.items() if re.search(r"(?<!`)st\.fragment", text)] == ["gate.py"]
    dialogs = {name: len(re.findall(r"st\.dialog\(", text)) for name, text in texts.items() if "st.dialog(" in text}
    assert dialogs == {name: texts[name].count("gate.drawn_for_admitted") for name in dialogs} and len(dialogs) == 3


def test_a_part_is_drawn_again_only_for_those_who_are_let_in(monkeypatch) -> None:
    drawn: list[int] = []
    part = gate.drawn_for_admitted(drawn.append)
    part(1)
    monkeypatch.setattr(viewer, "standing", lambda: viewer.Standing(True, why="signed out"))
    monkeypatch.setattr("streamlit.rerun", lambda: pytest.fail("drawn again"))  # as the real one, it does not return
    with pytest.raises(pytest.fail.Exception, match="drawn again"):
        part(2)
    assert drawn == [1]


def test_every_page_begins_with_the_call_that_asks_who_is_there() -> None:
    """Nothing is drawn before `shell.page`, which stops the script for others."""
    for path in sorted((ROOT / "pages").glob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        first = next(node for node in body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
        assert ast.unparse(first.value.func) == "shell.page", path
        assert ast.literal_eval(first.value.args[0]) == path.stem, "a page says which line of the menu is its own"
        before = [node for node in body[1 : body.index(first)] if not ast.unparse(node).startswith("if TYPE_CHECKING:")]
        harmless = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.Assign, ast.AnnAssign)
        assert all(isinstance(node, harmless) for node in before), path
        assigned = [node for node in before if isinstance(node, ast.Assign | ast.AnnAssign)]
        assert not any(re.search(r"\bst\.", ast.unparse(node)) for node in assigned), path
