"""`python -m core extract`: own prompts, controls, and one line for what cannot be used."""

from __future__ import annotations

import json

import pytest

from core.__main__ import main
from core.corpus.tables import Corpus
from core.runs.store import Workspace


@pytest.fixture(scope="module")
def leaky(leaky_workspace):
    """The data folder, the id of the run without privacy, and its cohort."""
    workspace = Workspace(leaky_workspace, shared=())
    run = next(run for run in workspace.runs() if not run.spec.is_base and not run.spec.privacy.private)
    return leaky_workspace, run.id, workspace.corpus(run.spec.corpus)


def test_own_prompts_are_asked_and_compared_with_their_controls(leaky, tmp_path, capsys):
    data, run, corpus = leaky
    (tmp_path / "mine.txt").write_text("Patient:\nRe:\n")
    arguments = ["extract", run, "--prompts", str(tmp_path / "mine.txt"), "--samples", "6", "--data", str(data)]
    assert main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["generations"] == 12 and {row["prompt"] for row in told["texts"]} == {"Patient:", "Re:"}
    named = [row for row in told["fields"] if row["field"] == "full_name"]
    assert {row["arm"] for row in named} == {"run", "heldout", "base"}
    found = {row["arm"]: row["patients"] for row in named}
    assert found["run"] > 0 and found["heldout"] == found["base"] == 0
    assert len({(row["patient_id"], row["field"], row["value"]) for row in told["values"]}) == len(told["values"])
    assert set(_names(corpus, told)) <= set(corpus.patients["full_name"])


def _names(corpus: Corpus, told: dict) -> list[str]:
    names = [row["value"] for row in told["values"] if row["field"] == "full_name"]
    assert names
    return names


def test_greedy_needs_one_text_a_prompt(leaky, capsys):
    data, run, _ = leaky
    assert main(["extract", run, "--prompt", "Patient:", "--greedy", "--data", str(data)]) == 0
    assert capsys.readouterr().out.startswith("1 text;")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--prompt", "a", "--prompts", "b.txt"], "not both"),
        (["--prompts", "nowhere.txt"], "cannot be read"),
        (["--prompt", " "], "prompt 1 is empty"),
        (["--prompt", "a", "--prompt", "a"], "repeats"),
    ],
)
def test_bad_prompts_are_one_line(leaky, capsys, options, said):
    data, run, _ = leaky
    assert main(["extract", run, *options, "--data", str(data)]) == 2
    told = capsys.readouterr()
    assert told.out == "" and said in told.err and told.err.count("\n") == 1
