"""The benchmark of the detector: its keys, and that a labelled file is counted as given."""

from __future__ import annotations

import json

from core.__main__ import main


def test_recall_and_precision_by_type_and_corpus(tmp_path, capsys):
    """Two of three labels are found, and nothing else; the shapes alone find one."""
    rows = [
        {"text": "Seen by Dr. Quist, MRN: B-98765", "spans": [[8, 17, "NAME"], [24, 31, "MRN"]]},
        {"text": "the usual zzyzx", "spans": [[10, 15, "NAME"]]},
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert main(["bench", "detector", "--labelled", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    mine = found["recall"]["mine"]
    assert mine["all"]["value"] == 2 / 3 and mine["all"]["n"] == 3 and mine["all"]["low"] < 2 / 3 < mine["all"]["high"]
    assert mine["NAME"]["value"] == 0.5 and mine["MRN"]["value"] == 1.0
    assert found["precision"]["mine"]["all"]["value"] == 1.0
    assert found["recall"]["labelled by hand"]["all"]["n"] == 84
    assert found["others"]["shapes 1"]["recall"]["mine"]["all"]["value"] == 0.0, (
        "“Dr.” is left, and the letter of B-98765"
    )
    assert found["engine"] == "rules 2 + en_core_web_sm 3.8.0" and found["lacks"] == ""
    assert set(found["others"]) == {"rules 2", "shapes 1"}


def test_a_wrong_file_and_a_wrong_benchmark_are_sentences(tmp_path, capsys):
    path = tmp_path / "x.jsonl"
    path.write_text("{}")
    assert main(["bench", "detector", "--labelled", str(path)]) == 2
    assert "x.jsonl, line 1: expected" in capsys.readouterr().err
    assert main(["bench", "recipes", "--labelled", str(path)]) == 2
    assert "has no option --labelled" in capsys.readouterr().err
