"""Numbers of random-number streams: two modules that draw from one stream make dependent choices."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SHARED = {  # 13 and 15: finished runs drew from them; a comment at each constant says why this does no harm
    0: {"core/cli/release.py", "core/tasks/texts.py"},  # the first draws from a fresh secret key, not from a seed
    13: {"core/corpus/tables.py", "core/attacks/membership/reference.py"},
    15: {"core/attacks/membership/shadow_models.py", "core/attacks/forgetting.py"},
}


def numbers(source: str) -> Iterator[int]:
    """Numbers of streams in a module: constants named so, members of `Purpose`, and those written into a path."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and any(name.endswith("STREAM") for name in _names(node.targets)):
            values = node.value.values if isinstance(node.value, ast.Dict) else [node.value]
            yield from _integers(values)
        elif isinstance(node, ast.ClassDef) and node.name == "Purpose":
            yield from _integers(one.value for one in node.body if isinstance(one, ast.Assign))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("default_rng", "SeedSequence") and node.args:
                path = node.args[0].elts if isinstance(node.args[0], ast.List | ast.Tuple) else []
                yield from _integers(path[1:2])
            elif node.func.attr == "stream":
                yield from _integers(node.args[:1])


def _names(targets: list[ast.expr]) -> list[str]:
    return [one.id for one in targets if isinstance(one, ast.Name)]


def _integers(nodes) -> list[int]:
    return [one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, int)]


def test_no_stream_belongs_to_two_modules():
    found: dict[int, set[str]] = defaultdict(set)
    for path in (ROOT / "core").rglob("*.py"):
        for number in numbers(path.read_text(encoding="utf-8")):
            found[number].add(path.relative_to(ROOT).as_posix())
    assert len(found) > 25 and {13, 15, 57, 505, 4} <= set(found), "constants, paths and purposes are all seen"
    assert {number: files for number, files in found.items() if len(files) > 1} == SHARED


def test_every_way_to_name_a_stream_is_seen():
    source = "_STREAM = 7\nSTREAM = {'a': 8, 'b': 9}\nr.default_rng([seed, 10])\nx.SeedSequence([s, 11, 2])\n"
    source += "key.stream(12)\nclass Purpose:\n    NOISE = 4\nr.default_rng([seed, row])\nOTHER = 5\n"
    assert sorted(numbers(source)) == [4, 7, 8, 9, 10, 11, 12]


def test_a_path_is_filled_with_zeros():
    """Why a path may not be made another one by a further 0."""
    one, other = (np.random.default_rng(path).random(4).tolist() for path in ([3, 15], [3, 15, 0]))
    assert one == other
