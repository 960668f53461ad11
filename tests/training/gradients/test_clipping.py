"""The clipped sum equals one unit at a time; one unit moves it by at most C; the noise is σ·C on the sum, once."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from core.models.build import LanguageModel
from core.training.gradients import per_example_norms
from core.training.gradients.clipping import Clipper, TrainingDiverged
from core.training.gradients.layer_gradients import UnsupportedLayer
from core.training.losses import example_losses
from core.training.weights import trainable
from tests.training.tiny import KINDS, accumulate, batch, language_model, merged, samples

SLOW = settings(max_examples=25, suppress_health_check=list(HealthCheck))


def flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten().double() for tensor in tensors])


def naive(
    lm: LanguageModel, ids: list[np.ndarray], units: list[int], norm: float, seed: int
) -> tuple[Tensor, list[float]]:
    """One unit at a time, each example alone and unpadded: gradient, clip, add. Returns the sum and the norms."""
    parameters = [parameter for parameter in lm.model.parameters() if parameter.requires_grad]
    _, alone = batch(lm, ids, seed)
    total, norms = torch.zeros(sum(map(Tensor.numel, parameters)), dtype=torch.float64), []
    for unit in sorted(set(units)):
        loss = sum(example_losses(lm, alone[row]).sum() for row in range(len(ids)) if units[row] == unit)
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        gradient = flat([torch.zeros_like(p) if g is None else g for g, p in zip(found, parameters, strict=True)])
        norms.append(gradient.norm().item())
        total += gradient * min(1.0, norm / norms[-1])
    return total, norms


def clipped(
    lm: LanguageModel, ids: list[np.ndarray], units: list[int], norm: float, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """The sum by `Clipper`, in one physical batch, without noise; and the norms."""
    with Clipper(lm.model, norm) as clipper:
        norms = accumulate(clipper, example_losses(lm, batch(lm, ids, seed)[0]), units) if ids else torch.zeros(0)
        clipper.noisy_gradient(0.0, 1.0, np.random.default_rng(0))
    return flat([parameter.grad for parameter in lm.model.parameters() if parameter.requires_grad]), norms


@st.composite
def cohorts(draw: st.DrawFn) -> tuple[list[int], list[int], float, int]:
    """Lengths and units of 1 to 7 examples (short and long: Gram and direct norms), a clipping norm and a seed."""
    lengths = draw(st.lists(st.integers(3, 45), min_size=1, max_size=7))
    names = draw(st.lists(st.integers(0, 4), min_size=len(lengths), max_size=len(lengths)))
    units = draw(st.sampled_from([list(range(len(lengths))), names]))
    return lengths, units, draw(st.sampled_from([0.1, 1.0, 30.0])), draw(st.integers(0, 100))


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("kind", KINDS)
@SLOW
@given(cohort=cohorts(), which=st.sampled_from(["all", "all", "no-embeddings"]))
def test_the_sum_equals_one_unit_at_a_time(kind: str, tied: bool, cohort: tuple, which: str) -> None:
    lengths, units, norm, seed = cohort
    lm = language_model(kind, tied=tied, seed=seed)
    ids = samples(lm, lengths, seed)
    with trainable(lm.model, which):
        expected, expected_norms = naive(lm, ids, units, norm, seed)
        found, norms = clipped(lm, ids, units, norm, seed)
    assert (found - expected).abs().max() <= 1e-5
    np.testing.assert_allclose(norms.numpy(), expected_norms, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("kind", KINDS)
@SLOW
@given(cohort=cohorts(), cuts=st.sets(st.integers(1, 6), max_size=3))
def test_pieces_of_a_physical_batch_make_no_difference(kind: str, tied: bool, cohort: tuple, cuts: set[int]) -> None:
    lengths, units, norm, seed = cohort
    lm = language_model(kind, tied=tied, seed=seed)
    ids = samples(lm, lengths, seed)
    expected, expected_norms = naive(lm, ids, units, norm, seed)
    edges = [0, *sorted(cut for cut in cuts if cut < len(ids)), len(ids)]
    _, alone = batch(lm, ids, seed)
    with Clipper(lm.model, norm) as clipper:
        for first, last in zip(edges, edges[1:], strict=False):
            piece = merged(alone[first:last])
            clipper.backward(example_losses(lm, piece), units[first:last])
        norms = clipper.clip()
        clipper.noisy_gradient(0.0, 1.0, np.random.default_rng(0))
    found = flat([parameter.grad for parameter in lm.model.parameters() if parameter.requires_grad])
    assert (found - expected).abs().max() <= 1e-5
    np.testing.assert_allclose(norms.numpy(), expected_norms, rtol=1e-5)


@pytest.mark.parametrize("room", [0, 15_000, 10**7], ids=["nothing kept", "some kept", "all kept"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_may_be_kept_or_not_and_their_room_is_used_again(
    kind: str, tied: bool, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(per_example_norms, "KEPT_FLOATS", room)
    monkeypatch.setattr(per_example_norms, "KEEP_BELOW", 2.0 if room < 10**7 else 10**7)
    lm = language_model(kind, tied=tied)
    cohorts = [([40, 5, 33, 21, 30], [0, 1, 1, 2, 0]), ([6, 45, 12], [0, 1, 2]), ([44] * 6, [0] * 6)]
    expected = [naive(lm, samples(lm, lengths), units, 0.5, 0) for lengths, units in cohorts]
    with Clipper(lm.model, 0.5) as clipper:
        for (lengths, units), (total, expected_norms) in zip(cohorts, expected, strict=True):
            norms = accumulate(clipper, example_losses(lm, batch(lm, samples(lm, lengths))[0]), units)
            clipper.noisy_gradient(0.0, 1.0, np.random.default_rng(0))
            assert (flat([parameter.grad for parameter in lm.model.parameters()]) - total).abs().max() <= 1e-5
            np.testing.assert_allclose(norms.numpy(), expected_norms, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_padding_token_in_the_text_is_counted_as_torch_counts_it(kind: str) -> None:
    lm = language_model(kind)
    ids = samples(lm, [12, 20])
    ids[0][4:7] = lm.tokenizer.pad_token_id  # torch leaves an embedding's padding row out of its gradient
    expected, _ = naive(lm, ids, [0, 1], 1.0, 0)
    assert (clipped(lm, ids, [0, 1], 1.0)[0] - expected).abs().max() <= 1e-5


def test_nobody_sampled_gives_a_zero_sum() -> None:
    lm = language_model("gpt2")
    total, norms = clipped(lm, [], [], 1.0)
    assert not total.any() and len(norms) == 0
    with Clipper(lm.model, 1.0) as clipper:
        assert len(accumulate(clipper, torch.zeros(0), [])) == 0


@pytest.mark.parametrize("unit", ["note", "patient"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_unit_moves_the_sum_by_at_most_c_and_two_c(kind: str, unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    norm, seeds = 0.5, range(4)
    units = [0, 1, 2, 3] if unit == "note" else [0, 1, 1, 2, 2, 3]

    def moves() -> tuple[list[float], list[float]]:
        added, replaced = [], []
        for seed in seeds:
            lm = language_model(kind, seed=seed)
            ids = samples(lm, [int(n) for n in np.random.default_rng(seed).integers(4, 40, len(units))], seed)
            other = [*ids[:-1], samples(lm, [9], seed + 99)[0]]  # the last unit is another one
            whole = clipped(lm, ids, units, norm, seed)[0]
            added.append((whole - clipped(lm, ids[:-1], units[:-1], norm, seed)[0]).norm().item())
            replaced.append((whole - clipped(lm, other, units, norm, seed)[0]).norm().item())
        return added, replaced

    added, replaced = moves()
    assert max(added) <= norm * (1 + 1e-5)
    assert max(replaced) <= 2 * norm * (1 + 1e-5)
    # The bound means something: without clipping (what a scalar loss would do) the same cohorts break it.
    real = Clipper._norms
    monkeypatch.setattr(Clipper, "_norms", lambda self, records, layout: 0 * real(self, records, layout))
    added, replaced = moves()
    assert max(added) > 2 * norm and max(replaced) > 2 * norm


def test_a_scalar_loss_is_refused() -> None:
    lm = language_model("gpt2")
    losses = example_losses(lm, batch(lm, samples(lm, [5, 6]))[0])
    with Clipper(lm.model, 1.0) as clipper, pytest.raises(ValueError, match="would clip nothing"):
        accumulate(clipper, losses.mean(), [0, 1])


def test_a_unit_spread_over_two_physical_batches_is_refused_within_a_logical_batch_only() -> None:
    lm = language_model("gpt2")
    padded = batch(lm, samples(lm, [5, 6]))[0]
    with Clipper(lm.model, 1.0) as clipper:
        accumulate(clipper, example_losses(lm, padded), [3, 4])
        with pytest.raises(ValueError, match="unit 4 is spread over two physical batches"):
            accumulate(clipper, example_losses(lm, padded), [4, 5])
        clipper.noisy_gradient(1.0, 2.0, np.random.default_rng(0))
        accumulate(clipper, example_losses(lm, padded), [4, 5])


def test_a_layer_that_ran_in_some_pieces_or_for_nothing_is_named() -> None:
    model = nn.ModuleDict({"first": nn.Linear(3, 4), "second": nn.Linear(4, 4), "tied": nn.Embedding(5, 4)})
    model["out"] = nn.Linear(4, 5, bias=False)
    model["out"].weight = model["tied"].weight
    x = torch.ones(2, 3)

    def loss(*names: str) -> Tensor:
        values = x
        for name in names:
            values = model[name](values)
        return values.square().sum(1)

    with Clipper(model, 1.0) as clipper:
        clipper.backward(loss("first", "second"), [0, 1])
        clipper.backward(loss("first"), [0, 1])
        with pytest.raises(ValueError, match="the layer second took part in some pieces"):
            clipper.clip()
        clipper.backward(loss("first", "out"), [0, 1])
        with pytest.raises(ValueError, match="only one of the tied layers tied, out took part"):
            clipper.clip()
        losses = loss("first")
        model["second"](x.new_ones(2, 4))
        with pytest.raises(ValueError, match="the layer second ran, but the losses do not depend on it"):
            clipper.backward(losses, [0, 1])
        accumulate(clipper, loss("first", "second"), [0, 1])


def test_traps_are_named() -> None:
    lm = language_model("gpt2")
    ids = batch(lm, samples(lm, [5, 6]))[0].ids
    with Clipper(lm.model, 1.0) as clipper:
        broadcast = lm.model(input_ids=ids).logits.mean((1, 2))  # position_ids without a batch dimension
        with pytest.raises(ValueError, match="transformer.wpe saw 1 rows for 2 losses"):
            accumulate(clipper, broadcast, [0, 1])
        lm.model(input_ids=ids)
        with pytest.raises(ValueError, match="ran twice before backward"):
            lm.model(input_ids=ids)
        with torch.no_grad():  # an evaluation in between leaves no trace
            lm.model(input_ids=ids)
        accumulate(clipper, example_losses(lm, batch(lm, samples(lm, [5, 6]))[0]), [0, 1])
    lm.model.lm_head = nn.Sequential(nn.Conv1d(32, 8, 1))
    with pytest.raises(UnsupportedLayer, match=r"'lm_head.0' \(Conv1d\)"):
        Clipper(lm.model, 1.0)


def test_two_linear_layers_that_share_a_weight_are_refused() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    with pytest.raises(UnsupportedLayer, match="0 and 1 share a weight"):
        Clipper(model, 1.0)


def test_a_gradient_that_is_not_a_number_stops_the_training() -> None:
    lm = language_model("gpt2")
    with torch.no_grad():
        lm.model.lm_head.weight[0, 0] = math.inf
    with Clipper(lm.model, 1.0) as clipper, pytest.raises(TrainingDiverged, match="lower the learning rate"):
        accumulate(clipper, example_losses(lm, batch(lm, samples(lm, [5, 6]))[0]), [0, 1])


def test_linear_layers_without_a_time_dimension() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 3))
    x = torch.randn(6, 5)
    parameters = list(model.parameters())
    expected = 0
    for row in x:
        gradient = flat(list(torch.autograd.grad(model(row[None]).square().sum(), parameters)))
        expected = expected + gradient * min(1.0, 0.3 / gradient.norm().item())
    with Clipper(model, 0.3) as clipper:
        accumulate(clipper, model(x).square().sum(1), list(range(6)))
        clipper.noisy_gradient(0.0, 1.0, np.random.default_rng(0))
    assert (flat([parameter.grad for parameter in parameters]) - expected).abs().max() <= 1e-5


@pytest.mark.parametrize(
    ("scale", "shift", "how"),
    [
        (1.0, 0.1, "usual"),
        (0.0, 0.0, "scales of 0"),
        (1e-3, 1.0, "shifts of 1,000 scales"),
        (1.0, 15.0, "shifts of 15 scales"),
        (1.0, 0.1, "frozen shift"),
        (1.0, 0.1, "no shift"),
        (0.0, 0.1, "no shift, scales of 0"),
    ],
)
def test_layer_norms_whatever_their_scale_and_shift(scale: float, shift: float, how: str) -> None:
    torch.manual_seed(0)
    norm = nn.LayerNorm(7, bias="no shift" not in how)
    with torch.no_grad():
        norm.weight.copy_(scale * (1.0 + 0.1 * torch.randn(7)))
        if norm.bias is not None:
            norm.bias.copy_(shift * torch.tensor([1.0, -1.0, 0.5, 0.0, 1.0, -0.3, 1.0])).requires_grad_(how[0] != "f")
    model = nn.Sequential(nn.Linear(5, 7), norm, nn.Linear(7, 3))
    x, aim = torch.randn(6, 4, 5), torch.randn(6, 4, 3)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    expected = 0
    for row, goal in zip(x, aim, strict=True):
        gradient = flat(list(torch.autograd.grad((model(row) - goal).square().mean(), parameters)))
        expected = expected + gradient * min(1.0, 0.3 / gradient.norm().item())
    with Clipper(model, 0.3) as clipper:
        accumulate(clipper, (model(x) - aim).square().mean((1, 2)), list(range(6)))
        clipper.noisy_gradient(0.0, 1.0, np.random.default_rng(0))
    assert (flat([parameter.grad for parameter in parameters]) - expected).abs().max() <= 1e-5


def noise_ratio(physical: list[list[int]], sigma: float, norm: float, draws: int = 12) -> float:
    """Standard deviation of the noise on the sum, over σ·C, when 4 units come in the given physical batches."""
    lm = language_model("gpt2")
    ids = samples(lm, [8, 9, 10, 11])
    exact = clipped(lm, ids, [0, 1, 2, 3], norm)[0]
    noise = []
    with Clipper(lm.model, norm) as clipper:
        for seed in range(draws):
            for rows in physical:
                accumulate(clipper, example_losses(lm, batch(lm, [ids[row] for row in rows])[0]), rows)
            clipper.noisy_gradient(sigma, 8.0, np.random.default_rng(seed))
            summed = flat([parameter.grad for parameter in lm.model.parameters()]) * 8.0
            noise.append(summed - (exact if physical else 0.0))
    drawn = torch.cat(noise)
    assert abs(drawn.mean()) < 0.01 * sigma * norm
    return drawn.std().item() / (sigma * norm)


@pytest.mark.parametrize("physical", [[[0, 1, 2, 3]], [[0], [1], [2], [3]], [[2, 0], [3, 1]], []], ids=str)
def test_noise_is_sigma_c_on_the_sum_once_a_logical_batch(physical: list[list[int]]) -> None:
    # About 500,000 draws: the standard error of a standard deviation is 0.1 %, so 1 % is far and 5 % cannot pass.
    assert noise_ratio(physical, sigma=1.3, norm=0.7) == pytest.approx(1.0, rel=0.01)


def test_the_noise_test_would_see_five_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Clipper.noisy_gradient
    monkeypatch.setattr(Clipper, "noisy_gradient", lambda self, sigma, units, rng: real(self, 1.05 * sigma, units, rng))
    assert noise_ratio([[0, 1], [2, 3]], sigma=1.3, norm=0.7) != pytest.approx(1.0, rel=0.01)
