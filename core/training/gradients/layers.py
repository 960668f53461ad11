"""Choose a handler of `core.training.gradients.layer_gradients` for each trainable layer of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from core.common.transformers_parts import BertLMPredictionHead, Conv1D
from core.training.gradients.layer_gradients import (
    EmbeddingGradients,
    LayerNormGradients,
    LinearGradients,
    TiedGradients,
    UnsupportedLayer,
)

LayerGradients = LinearGradients | EmbeddingGradients | LayerNormGradients | TiedGradients

_KINDS: dict[type[nn.Module], Callable[[Any], LayerGradients]] = {  # each is called with a layer of its key's type
    nn.Linear: LinearGradients,
    Conv1D: LinearGradients,
    nn.Embedding: EmbeddingGradients,
    nn.LayerNorm: LayerNormGradients,
}
# Layers that hold another layer's parameter a second time and never use it themselves: BERT's head holds its decoder's
# bias.
_HOLDERS: tuple[type[nn.Module], ...] = (BertLMPredictionHead,)


def layers_of(model: nn.Module) -> list[LayerGradients]:
    """A handler for every trainable layer of `model`; a tied embedding and output layer share one.

    Raises:
        UnsupportedLayer: naming the layer, when a trainable parameter belongs to an unknown kind of layer, or is shared
            in any way other than between an embedding and one output layer.
    """
    owners: dict[nn.Parameter, list[tuple[str, nn.Module]]] = {}
    strays: list[tuple[str, nn.Module, nn.Parameter]] = []
    for name, module in model.named_modules():
        for parameter in module.parameters(recurse=False):
            if not parameter.requires_grad:
                continue
            if type(module) in _KINDS:
                owners.setdefault(parameter, []).append((name, module))
            else:
                strays.append((name, module, parameter))
    for name, module, parameter in strays:
        if parameter not in owners and not isinstance(module, _HOLDERS):
            raise UnsupportedLayer(
                f"the layer {name or 'itself'!r} ({type(module).__name__}) is trainable, but gradients cannot be "
                f"clipped per unit for it: freeze it, or use one of {', '.join(kind.__name__ for kind in _KINDS)}"
            )
    handlers: list[LayerGradients] = []
    tied: set[nn.Module] = set()
    for shared in (modules for modules in owners.values() if len(modules) > 1):
        kinds = sorted((module for _, module in shared), key=lambda module: isinstance(module, nn.Linear))
        if len(kinds) != 2 or type(kinds[0]) is not nn.Embedding or type(kinds[1]) is not nn.Linear:
            names = " and ".join(name for name, _ in shared)
            raise UnsupportedLayer(
                f"the layers {names} share a weight; only an embedding tied to one output layer can be clipped per unit"
            )
        handlers.append(TiedGradients(kinds[0], kinds[1]))
        tied.update(kinds)
    seen: set[nn.Module] = set(tied)
    for modules in owners.values():
        for _, module in modules:
            if module not in seen:
                seen.add(module)
                handlers.append(_KINDS[type(module)](module))
    return handlers
