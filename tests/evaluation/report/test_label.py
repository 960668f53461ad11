"""The DP label, its curve, and the record for the registry of deployments."""

from __future__ import annotations

import io
import json
import math
import shutil
import zipfile
from datetime import date

import pytest
from scipy.stats import norm

from core.evaluation.report import label as label_module
from core.evaluation.report.facts import build
from core.evaluation.report.html import render
from core.evaluation.report.label import essentials, picture, rows
from core.runs.ledger.entries import Ledger
from core.runs.store import Workspace
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.tradeoff import tradeoff

# The fields of the registry's schema (opendp/deployments-registry-data), section by section; lists are allowed values.
FIELDS = {
    "basic": {
        *("name", "data_curators", "intended_use", "data_product_type", "data_product_region", "description"),
        *("publication_date", "data_product_sector"),
    },
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {"privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"},
    "deployment_model": {
        *("model_name", "model_name_details", "actors", "release_type", "release_type_details", "data_source_type"),
        *("data_source_type_details", "access_type", "access_type_details"),
    },
    "accounting": {"post_processing", "composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    "administrative": {"sources", "notes", "registry_authors"},
}
ALLOWED = {
    "data_product_type": ["Summary statistics", "Machine learning model", "Dataset", "Synthetic data"],
    "data_product_sector": ["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"],
    "variant_name": ["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"],
    "model_name": ["Local", "Central", "Shuffle", "Federated", "Varies"],
    "release_type": ["One release", "Many releases"],
    "data_source_type": ["Static", "Dynamic"],
    "access_type": ["Interactive", "Non-interactive"],
}


@pytest.fixture(scope="module")
def secret(root, smoke_specs):
    workspace = Workspace(root, shared=())
    return build(workspace, [workspace.run(smoke_specs["dp"].run_id)], now=0.0)


@pytest.fixture(scope="module")
def public(smoke_workspace, smoke_specs):
    workspace = Workspace(smoke_workspace, shared=())
    return build(workspace, [workspace.run(smoke_specs["dp"].run_id)], now=0.0)


def test_the_label_says_what_the_mechanism_says(secret, root, smoke_specs):
    mechanism = Workspace(root, shared=()).run(smoke_specs["dp"].run_id).privacy
    made = secret.facts["label"]
    assert made["promised"] and (made["unit"], made["epsilon"], made["delta"]) == ("note", mechanism.epsilon(), 1e-3)
    curve = tradeoff([mechanism])
    assert made["mu"] == curve.gaussian_mu()
    assert [one["caught"] for one in made["curve"]] == curve.caught([one["accused"] for one in made["curve"]]).tolist()
    printed = {name: text for _, name, text in rows(made)}
    assert printed["ε at δ"] == "ε = 8 at δ = 0.001" and printed["Neighbours"] == "add/remove one note"
    assert f"σ = {mechanism.noise_multiplier:.4g}" in printed["Mechanism"] and "secret key" in printed["Noise"]
    page = render(secret)
    assert all(word in page for word in ("DP label", "Not protected", "Trade-off curve of the training"))


def test_the_curve_of_one_gaussian_release_is_known():
    """Without sampling one step is Gaussian DP with μ = 1/σ (Dong, Roth & Su 2022): Φ(Φ⁻¹(α) + μ)."""
    one = Mechanism(unit="note", noise_multiplier=1.0, sample_rate=1.0, steps=1, delta=1e-5, max_grad_norm=1.0)
    subject = type("Bare", (), {"run": type("Run", (), {"privacy": one})(), "choice": None})()
    points = [tuple(map(float, pair.split(","))) for pair in picture(subject)["own"].split()]
    for x, y in points[1:]:
        rate = (x - label_module.EDGE) / (label_module.WIDTH - label_module.EDGE - 6)
        caught = 1 - (y - 6) / (label_module.HEIGHT - label_module.EDGE - 6)
        if 0.01 < rate < 1:
            assert caught == pytest.approx(norm.cdf(norm.ppf(rate) + 1), abs=0.02)


def test_a_public_seed_is_shown_and_not_promised(public):
    made = public.facts["label"]
    assert not made["promised"] and made["epsilon"] == pytest.approx(8, rel=2e-3)
    assert rows(made)[0][2].startswith("shown, not promised")
    loss = public.facts["deployment_record"]["deployment"]["privacy_loss"]
    assert "privacy_parameters" not in loss and loss["privacy_parameters_details"].startswith("None can be registered")


def test_without_privacy_there_is_no_label_and_no_record(root, smoke_specs):
    workspace = Workspace(root, shared=())
    made = build(workspace, [workspace.run(smoke_specs["plain"].run_id)], now=0.0)
    assert made.facts["label"] == {"promised": False, "unit": None} and made.facts["deployment_record"] is None
    assert "has no label" in render(made) and rows(made.facts["label"]) == []
    assert "deployment-record.json" not in zipfile.ZipFile(io.BytesIO(made.to_zip(""))).namelist()


def test_the_first_page_has_the_label_in_one_line(secret, public):
    """Unit, ε at δ, μ, accountant and the seed's status, each with a link to its row of the whole label."""
    for made, status, noise in ((secret, "promised", "a secret key"), (public, "shown, not promised", "a public seed")):
        found = dict(essentials(made.facts["label"]))
        assert found["status"] == status and found["noise"] == f"noise from {noise}"
        assert (found["unit"], found["epsilon"]) == ("one note", "ε = 8 at δ = 0.001")
        assert found["mu"] == f"μ = {label_module.mu_text(made.facts['label'])}"
        assert found["accountant"] == "accountant PRV"
        front = render(made).partition('<div class="annex">')[0]
        assert all(f'<a href="#label-{key}">{text}</a>' in front for key, text in found.items())
        assert {key for key, *_ in rows(made.facts["label"])} >= set(found)
    assert essentials({"promised": False, "unit": None}) == []
    assert dict(essentials(public.facts["label"] | {"mu": math.inf}))["mu"] == "μ above 6.18"


def test_mu_beyond_what_the_curve_can_tell_is_said():
    assert label_module.mu_text({"mu": math.inf}) == "above 6.18" and label_module.mu_text({"mu": 1.3203}) == "1.33"


def test_the_record_has_the_registry_s_fields_and_values(secret, root, smoke_specs):
    found = secret.facts["deployment_record"]
    assert set(found) == {"url_slug", "status", "tier", "deployment"}
    assert (found["status"], found["tier"]) == ("Draft", 3)
    assert set(found["deployment"]) == set(FIELDS)
    for section, values in found["deployment"].items():
        assert set(values) <= FIELDS[section], section
        for name, value in values.items():
            assert value, f"{section}.{name}"
            assert name not in ALLOWED or value in ALLOWED[name], f"{section}.{name}"
    basic = found["deployment"]["basic"]
    assert date.fromisoformat(basic["publication_date"]) == date(1970, 1, 1) and len(basic["data_curators"]) == 1
    parameters = found["deployment"]["privacy_loss"]["privacy_parameters"]
    assert parameters == {"epsilon": secret.facts["label"]["epsilon"], "delta": 1e-3}
    packed = zipfile.ZipFile(io.BytesIO(secret.to_zip("")))
    assert json.loads(packed.read("deployment-record.json")) == json.loads(secret.to_json())["deployment_record"]


def test_a_release_in_the_ledger_dates_the_record(root, smoke_specs, tmp_path):
    shutil.copytree(root, tmp_path / "data")
    workspace = Workspace(tmp_path / "data", shared=())
    run = workspace.run(smoke_specs["dp"].run_id)
    ledger = Ledger.of(workspace, run.spec.corpus)
    entry = ledger.enter(ledger.draft_run(run, "a test"))
    deployment = build(workspace, [run], now=0.0).facts["deployment_record"]["deployment"]
    assert deployment["basic"]["publication_date"] == date.fromtimestamp(entry.time).isoformat()
    assert deployment["administrative"]["notes"].endswith("the release is in the ledger.")
