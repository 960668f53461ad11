"""Hostile input, counted: `python -m core bench hostile --json`.

Every page is visited with every hostile word in every parameter of its link, and every box of every page is given every
word. Files that are no notes are imported, and hostile ids are given to commands. Nothing may raise, nothing typed may
become markup, and nothing of another owner may appear. `scripts_run` opens such links in a real Chromium and asks the
pages' windows whether a script ran; `sent_by_hand` asks a server for what no link leads to. Both need a running server,
so the tests call them.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json as json_format
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from bench.faults import _store
from bench.faults._inputs import MARK, TAGS, WORDS, files

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]
WAIT = 300  # seconds for a page
BOXES = ("text_input", "text_area", "chat_input", "number_input")
COMMANDS = (
    ("prompt", "{}", "Patient:"),
    ("audit", "{}"),
    ("report", "{}"),
    ("step", "{}", "--out", "/nowhere/x"),
    ("forget", "{}", "P0001"),
    ("ledger", "--release", "{}", "--reason", "x"),
    ("delete-upload", "{}"),
    ("notes", "{}", "--out", "/nowhere/x"),
    ("corpus", "--preset", "{}", "--out", "/nowhere/x"),
)


@dataclass
class Count:
    """How many inputs were given, and what went wrong with which."""

    inputs: int = 0
    exceptions: list[str] = field(default_factory=list)
    markup: list[str] = field(default_factory=list)
    others_data: list[str] = field(default_factory=list)

    def told(self) -> dict[str, Any]:
        """As JSON: the number of each, and what went wrong."""
        return {
            key: value if isinstance(value, int) else [len(value), *value[:5]] for key, value in asdict(self).items()
        }


def main(json: bool = False, rounds: int | None = None) -> None:
    """Make a small store, give it everything, and print the counts.

    With `rounds`, each parameter of a link and each box gets so many of the words, not all of them.
    """
    from pages.parts.common.shell import page_names

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "data"
        run = _store.make_runs(root)[0]
        other = _store.upload_of(root, Path(folder) / "made", "session-of-somebody-else")
        os.environ.update(PHILAB_DATA=str(root), PHILAB_SHIPPED=os.devnull)
        some = dict(list(WORDS.items())[:: max(1, len(WORDS) // (rounds or len(WORDS)))])
        parts: dict[str, Callable[[], Count]] = {
            "files": imports,
            "commands": partial(commands, root),
            "prompts": partial(prompts, root, run.id),
            "another owner's ids": partial(others_ids, page_names(), other.id, other.spec.corpus.digest()),
            "links": partial(links, page_names(), most_visits=rounds),
            "boxes": partial(boxes, page_names(), some),
        }
        found = {}
        for name, part in parts.items():
            found[name] = part()
            print(f"{name}: {found[name].told()}", file=sys.stderr, flush=True)
    told = {name: count.told() for name, count in found.items()}
    if json:
        print(json_format.dumps(told, indent=1, ensure_ascii=False))
        return
    for name, count in told.items():
        bad = {key: value for key, value in count.items() if isinstance(value, list) and value[0]}
        print(f"{name}: {count['inputs']:,} inputs; {bad or 'nothing went wrong'}")


def parameters() -> list[str]:
    """Every name that a page may read from its link: keys of widgets, and parameters read by name."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "pages").rglob("*.py")))
    found = re.findall(r'key="([a-z_]+)"|query_params(?:\.get\(|\[)"([a-z_]+)"', text)
    return sorted({name for pair in found for name in pair if name})


# Pages ---------------------------------------------------------------------------------------------------------------


def opened(page: str, query: dict[str, str]) -> AppTest:
    """A page by its link, in a session of its own."""
    from streamlit.testing.v1 import AppTest

    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT).run()
    for name, value in query.items():
        app.query_params[name] = value
    return app if page == "home" and not query else app.switch_page(f"pages/{page}.py").run()


def look(app: AppTest, what: str, count: Count, hidden: Sequence[str] = (_store.OTHERS_WORD,)) -> None:
    """Count what is wrong with a page that was drawn."""
    count.exceptions += [f"{what}: {one.message or one.value}"[:300] for one in app.exception]
    for element in app._tree:
        proto = getattr(element, "proto", None)
        if proto is None or not hasattr(proto, "SerializeToString"):
            continue
        raw = element.type == "html" or getattr(proto, "allow_html", False)
        if raw and any(tag in proto.body for tag in TAGS):
            count.markup.append(f"{what}: {element.type}")
        sent = proto.SerializeToString()
        count.others_data += [f"{what}: {element.type}" for word in hidden if word.encode() in sent]


def tried(what: str, count: Count, work: Callable[[], AppTest | None]) -> None:
    """Do it, and count what is wrong with it."""
    try:
        app = work()
    except Exception as error:  # what must not happen is counted, and the next is tried
        count.exceptions.append(f"{what}: {type(error).__name__}: {error}"[:300])
        return
    if app is not None:
        look(app, what, count)


def links(pages: Sequence[str], words: dict[str, str] = WORDS, most_visits: int | None = None) -> Count:
    """Each page with a hostile word in every parameter; at each visit every parameter gets another one."""
    names, kinds, count = parameters(), list(words), Count()
    for page in pages:
        for turn in range(len(kinds) if most_visits is None else most_visits):
            query = {name: words[kinds[(7 * at + turn) % len(kinds)]] for at, name in enumerate(names)}
            count.inputs += len(query)
            tried(f"{page}, turn {turn}", count, partial(opened, page, query))
    return count


def boxes(pages: Sequence[str], words: dict[str, str] = WORDS) -> Count:
    """Each box of each page with each hostile word."""
    count = Count()
    for page in pages:
        app = opened(page, {})
        for kind in BOXES:
            for place in range(len(app.get(kind))):
                for name, word in words.items():
                    if _typed(app, kind, place, word):
                        count.inputs += 1
                        tried(f"{page}, {kind} {place}, {name}", count, app.run)
                app = opened(page, {})
    return count


def _typed(app: AppTest, kind: str, place: int, word: str) -> bool:
    """Type a word into a box; False if a browser could not, or the page does not have the box any more."""
    found: Any = app.get(kind)
    if place >= len(found) or found[place].disabled:
        return False
    if kind == "number_input":
        try:
            value = float(word)
        except ValueError:
            return False
        if not -1e15 < value < 1e15:
            return False
        found[place].set_value(value if isinstance(found[place].value, float) else int(value))
        return True
    most = getattr(found[place].proto, "max_chars", 0)
    found[place].set_value(word[:most] if most else word)
    return True


def others_ids(pages: Sequence[str], run_id: str, digest: str) -> Count:
    """Ids of another owner's run and notes, in every parameter of every page."""
    count = Count()
    ids = [run_id, digest, f"audit-{run_id}", f"{run_id},{digest}", "session-of-somebody-else"]
    names = parameters()
    for page in pages:
        for turn in range(len(ids)):
            query = {name: ids[(turn + at) % len(ids)] for at, name in enumerate(names)}
            count.inputs += len(query)
            tried(f"{page}, turn {turn}", count, partial(opened, page, query))
    return count


# A running server ---------------------------------------------------------------------------------------------------


def scripts_run(tab: Any, address: str, pages: Sequence[str], settled: Callable[[Any], None]) -> Count:
    """Links and typed words that hold scripts, in a browser: counts those that ran, and pages that did not draw.

    Args:
        tab: A Playwright page.
        address: Of a server.
        pages: Short names.
        settled: Waits until a page is drawn.
    """
    count = Count()
    words = {name: WORDS[name] for name in ("image", "svg", "frame", "out of an attribute", "Markdown link")}

    def dialog(opened: Any) -> None:
        count.markup.append("a dialog")
        opened.dismiss()

    tab.on("dialog", dialog)
    for page in pages:
        for turn in range(len(words)):
            chosen = [list(words.values())[(at + turn) % len(words)] for at in range(len(parameters()))]
            query = urlencode(dict(zip(parameters(), chosen, strict=True)))
            tab.goto(f"{address}/{'' if page == 'home' else page}?{query}")
            settled(tab)
            count.inputs += len(chosen)
            for box in tab.locator("input[type=text]:visible, textarea:visible").all()[:3] if turn == 0 else ():
                with contextlib.suppress(Exception):  # read-only, or drawn anew meanwhile
                    box.fill(words["image"], timeout=3_000)
                    box.press("Enter", timeout=3_000)
                    settled(tab)
                    count.inputs += 1
            if tab.evaluate(f"window.{MARK}"):
                count.markup.append(f"{page}, turn {turn}: a script ran")
            if tab.locator("[data-testid=stException]").count():
                count.exceptions.append(f"{page}, turn {turn}: an exception")
    tab.remove_listener("dialog", dialog)
    return count


def sent_by_hand(address: str, hidden: Sequence[str]) -> Count:
    """Paths that no page links to: out of the served folders, of others' media, uploads and runs."""
    count = Count()
    ways = ("../", "..%2f", "%2e%2e/", "....//", "..%5c", "%252e%252e%252f")
    places = ("media/", "component/philab/", "static/", "app/static/", "_stcore/", "_stcore/upload_file/x/", "")
    targets = ("etc/passwd", "app.py", ".streamlit/secrets.toml", "runs/", "data/runs/", "corpora/", "uploads/")
    host = urlsplit(address)
    for place in places:
        for way in ways:
            for target in targets:
                count.inputs += 1
                path = f"/{place}{way * 8}{target}"
                connection = http.client.HTTPConnection(host.hostname or "localhost", host.port, timeout=WAIT)
                try:
                    connection.request("GET", path)  # the path is sent as it is written here
                    answer = connection.getresponse()
                    body = answer.read()
                except (OSError, http.client.HTTPException) as error:
                    count.exceptions.append(f"{path}: {error}")
                    continue
                finally:
                    connection.close()
                if answer.status >= 500:
                    count.exceptions.append(f"{path}: {answer.status}")
                leaks = (b"root:x:", b"shell.run", b"cookie_secret", *(word.encode() for word in hidden))
                count.others_data += [path for word in leaks if word in body]
    return count


# Without pages -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _quiet() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield out, err


def _command(words: Sequence[str], what: str, count: Count) -> None:
    """Run a command in this process: it ends with 0, or with one sentence and no traceback."""
    from core.__main__ import main as program

    count.inputs += 1
    with _quiet() as (out, err):
        try:
            code = program(list(words))
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        except BaseException as error:  # what must not happen is counted, and the next is tried
            count.exceptions.append(f"{what}: {type(error).__name__}: {error}"[:300])
            return
    said = err.getvalue()
    lines = [line for line in said.splitlines() if line.startswith("Error: ")]
    usage = "Usage:" in said  # the command line's own message, for an option in place of an argument
    if code and not usage and (len(lines) != 1 or not re.search(r"[.!?”)]$|: [^ ]+$", lines[0]) or "Traceback" in said):
        count.exceptions.append(f"{what}: code {code}, {said[-250:]!r}")
    if _store.OTHERS_WORD in out.getvalue():
        count.others_data.append(what)


def imports(given: Sequence[tuple[str, bytes]] | None = None) -> Count:
    """`python -m core corpus --from FILE` on each hostile file: a cohort or a sentence, and nothing half-written."""
    count = Count()
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, content) in enumerate(files() if given is None else given):
            ending = name[name.index(".") :]
            source, out = Path(folder) / f"{number}{ending}", Path(folder) / f"out-{number}"
            source.write_bytes(content)
            _command(["corpus", "--from", str(source), "--out", str(out)], name, count)
            left = [path.name for path in Path(folder).iterdir() if path.name.startswith(".")]
            if left or (out.exists() and not (out / "notes.parquet").exists()):
                count.exceptions.append(f"{name}: left {left or out.name}")
            source.unlink()
    return count


def commands(root: Path, words: dict[str, str] = WORDS) -> Count:
    """Each command that takes an id, with each hostile word as the id."""
    count = Count()
    for command in COMMANDS:
        for name, word in words.items():
            asked = [part.format(word) if part == "{}" else part for part in command]
            place = [] if command[0] == "corpus" else ["--data", str(root)]
            _command([*asked, *place], f"{command[0]}, {name}", count)
    return count


def prompts(root: Path, run_id: str, words: dict[str, str] = WORDS) -> Count:
    """Each hostile word as a prompt to a model, by command."""
    count = Count()
    for name, word in words.items():
        _command(["prompt", run_id, word, "--data", str(root), "--json"], f"prompt, {name}", count)
    return count


if __name__ == "__main__":
    main(json="--json" in sys.argv)
