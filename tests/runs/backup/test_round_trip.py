"""What an archive brings back: everything, bit for bit, with the same figures, ε and weights; never keys or work."""

from __future__ import annotations

import shutil
import zipfile

import pytest

from core.attacks.membership.reference import reference_names
from core.pipeline.full_audit import target_of
from core.runs.backup.exporting import ExportRefused, export
from core.runs.backup.importing import import_archive
from core.runs.integrity.checksums import take
from core.runs.integrity.verify import damages
from core.runs.ledger.entries import Ledger
from core.runs.ledger.totals import promised
from core.runs.lock import held
from tests.runs.backup.conftest import SMOKE, contents, rewritten
from tests.runs.released import vocabulary

KINDS = ("corpora", "runs", "audits", "references", "ledger")


def outcomes(done) -> dict[str, str]:
    return {one.path: one.outcome for one in done}


def test_everything_comes_back_bit_for_bit(full, empty, smoke_specs, tmp_path) -> None:
    done = export(full, tmp_path / "a.zip")
    assert done.problems == [] and done.private == 0
    taken = import_archive(empty, tmp_path / "a.zip")
    assert {one.outcome for one in taken} == {"imported"}
    assert {one.path.split("/")[0] for one in taken} == set(KINDS)
    before = contents(full.root, *KINDS)
    assert contents(empty.root) == before and len(before) > 40
    assert list(damages(empty)) == []
    for spec in smoke_specs.values():
        here, there = full.run(spec.run_id), empty.run(spec.run_id)
        assert there.metrics.equals(here.metrics) and there.privacy == here.privacy and there.status == here.status
    dp = empty.run(smoke_specs["dp"].run_id)
    assert dp.privacy.epsilon() == full.run(dp.id).privacy.epsilon() and dp.has_model
    assert empty.audit(dp.id).table("scores").equals(full.audit(dp.id).table("scores"))
    total = promised(Ledger.of(empty, SMOKE).releases(), "note")
    assert total == promised(Ledger.of(full, SMOKE).releases(), "note") and total.epsilon > 0
    assert (empty.root / "ledger").stat().st_mode & 0o077 == 0


def test_the_attacks_find_their_reference_models_again(full, empty, smoke_specs, tmp_path) -> None:
    export(full, tmp_path / "a.zip")
    import_archive(empty, tmp_path / "a.zip")
    names = reference_names(target_of(empty.run(smoke_specs["dp"].run_id), empty))
    there = {path.name for path in (empty.root / "references").iterdir()}
    assert len(names) == 3 and len(names & there) == 1, "the attack of the fixture trains one of the three"


def test_keys_work_and_sign_outs_stay(full, tmp_path) -> None:
    export(full, tmp_path / "a.zip", uploads=True)
    with zipfile.ZipFile(tmp_path / "a.zip") as zipped:
        names = zipped.namelist()
        assert not any(b"k" * 32 in zipped.read(name) for name in names)
    assert {name.split("/")[0] for name in names} == {*KINDS, "manifest.json"}
    assert not any("lock" in name or "key" in name or "checkpoint" in name for name in names)
    assert (tmp_path / "a.zip").stat().st_mode & 0o777 == 0o600


def test_the_same_folder_gives_the_same_archive(full, tmp_path) -> None:
    export(full, tmp_path / "a.zip")
    export(full, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_what_is_there_is_skipped_and_what_differs_is_refused(full, smoke_specs, tmp_path) -> None:
    export(full, tmp_path / "a.zip")
    before = contents(full.root)
    assert set(outcomes(import_archive(full, tmp_path / "a.zip")).values()) == {"there"}
    card = full.run(smoke_specs["plain"].run_id).folder / "README.md"
    card.write_text(card.read_text() + "changed", encoding="utf-8")
    changed = contents(full.root)
    refused = [one for one in import_archive(full, tmp_path / "a.zip") if one.outcome != "there"]
    assert [one.outcome for one in refused] == ["refused"] and "differs in its file README.md" in refused[0].why
    assert contents(full.root) == changed != before, "nothing that is there is replaced"
    shutil.rmtree(card.parent)
    assert outcomes(import_archive(full, tmp_path / "a.zip"))[f"runs/{card.parent.name}"] == "imported"
    assert contents(full.root) == before


def test_an_audit_of_another_training_of_the_run_is_refused(full, empty, smoke_specs, tmp_path) -> None:
    """The run here and the archive's have one id and, with secret noise, other weights."""
    export(full, tmp_path / "a.zip")
    import_archive(empty, tmp_path / "a.zip")
    dp = empty.run(smoke_specs["dp"].run_id)
    shutil.rmtree(empty.audit(dp.id).folder)
    privacy = dp.privacy.model_copy(update={"training": "a" * 16})
    (dp.folder / "privacy.json").write_text(privacy.to_json(), encoding="utf-8")
    take(dp.folder, dp.spec.corpus)
    refused = {one.path: one.why for one in import_archive(empty, tmp_path / "a.zip") if one.outcome == "refused"}
    assert set(refused) == {f"runs/{dp.id}", f"audits/{dp.id}"}
    assert "the archive's run, which was not imported" in refused[f"audits/{dp.id}"]
    rewritten(tmp_path / "a.zip", tmp_path / "b.zip", lambda entries: without_runs(entries, dp.id))
    (alone,) = [one for one in import_archive(empty, tmp_path / "b.zip") if one.outcome == "refused"]
    assert alone.path == f"audits/{dp.id}" and "trained again, with other noise" in alone.why
    assert not empty.audit(dp.id).folder.exists()


def without_runs(entries: dict[str, bytes], run_id: str) -> None:
    for name in [name for name in entries if name.startswith(f"runs/{run_id}/")]:
        del entries[name]


def test_without_weights_all_figures_are_kept(full, empty, smoke_specs, tmp_path) -> None:
    export(full, tmp_path / "light.zip", weights=False)
    export(full, tmp_path / "whole.zip")
    assert (tmp_path / "light.zip").stat().st_size < (tmp_path / "whole.zip").stat().st_size / 3
    import_archive(empty, tmp_path / "light.zip")
    dp = smoke_specs["dp"].run_id
    light = empty.run(dp)
    assert not light.has_model and light.metrics.equals(full.run(dp).metrics) and light.privacy == full.run(dp).privacy
    assert list(damages(empty)) == []
    kept = {path.name.split("-")[0] for path in (empty.root / "references").iterdir()}
    assert kept == {"shadows"}, "of shadow models only scores are stored"
    assert set(outcomes(import_archive(full, tmp_path / "light.zip")).values()) == {"there"}, "here is more"
    again = outcomes(import_archive(empty, tmp_path / "whole.zip"))
    assert again[f"runs/{dp}"] == "completed" and empty.run(dp).has_model
    assert contents(empty.root) == contents(full.root, *KINDS)


def test_a_named_run_comes_with_its_control_cohort_and_audit(full, empty, smoke_specs, tmp_path) -> None:
    dp, base = smoke_specs["dp"].run_id, smoke_specs["base"].run_id
    done = export(full, tmp_path / "a.zip", runs=[dp, dp])
    assert {item.path for item in done.items} == {
        f"runs/{dp}",
        f"runs/{base}",
        f"audits/{dp}",
        f"corpora/{SMOKE.digest()}",
    }
    import_archive(empty, tmp_path / "a.zip")
    assert {run.id for run in empty.runs()} == {dp, base} and not (empty.root / "ledger").exists()


def test_an_audit_in_progress_is_left_out_and_named(full, smoke_specs, tmp_path) -> None:
    dp = smoke_specs["dp"].run_id
    with held(full.audit_lock_file(dp), should_stop=lambda: False):
        done = export(full, tmp_path / "a.zip")
    assert f"audits/{dp}" not in {item.path for item in done.items}
    assert done.problems == [
        f"audits/{dp} was left out: it is being made at this moment; export it again when it is done."
    ]


def test_a_damaged_run_is_left_out_and_named(full, empty, smoke_specs, tmp_path) -> None:
    run = full.run(smoke_specs["plain"].run_id)
    (run.folder / "tables" / "scores.parquet").write_bytes(b"damage")
    odd = full.run(smoke_specs["dp"].run_id).folder / "weights.pkl"
    odd.write_bytes(b"\x80\x04.")
    done = export(full, tmp_path / "a.zip")
    assert len(done.problems) == 2 and any("scores.parquet is not what was written" in one for one in done.problems)
    assert any("does not belong to it, weights.pkl" in one for one in done.problems)
    import_archive(empty, tmp_path / "a.zip")
    assert {one.id for one in empty.runs()} == {smoke_specs["base"].run_id}


def test_an_archive_never_replaces_another_kind_of_file(full, tmp_path) -> None:
    thesis = tmp_path / "thesis.zip"
    thesis.write_text("years of work", encoding="utf-8")
    with pytest.raises(ExportRefused, match="not an archive of this program"):
        export(full, thesis)
    assert thesis.read_text(encoding="utf-8") == "years of work"


def test_a_ledger_that_is_ahead_or_behind(full, empty, tmp_path) -> None:
    ledger = Ledger.of(full, SMOKE)
    export(full, tmp_path / "first.zip")
    import_archive(empty, tmp_path / "first.zip")
    ledger.enter(ledger.draft_vocabulary("words", vocabulary(), "a test"))
    export(full, tmp_path / "second.zip")
    path = f"ledger/{SMOKE.digest()}"
    assert outcomes(import_archive(full, tmp_path / "first.zip"))[path] == "there", "the one here has later entries"
    assert len(ledger.releases()) == 2
    refused = {one.path: one for one in import_archive(empty, tmp_path / "second.zip")}[path]
    assert refused.outcome == "refused" and "has 1 of its 2 entries" in refused.why
    shutil.rmtree(empty.root / path)
    assert outcomes(import_archive(empty, tmp_path / "second.zip"))[path] == "imported"
    assert Ledger.of(empty, SMOKE).releases() == ledger.releases()
