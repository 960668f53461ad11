"""The gradients of the units in one step of DP-SGD, and what clipping and noise do to their sum.

Only the inner products of the gradients are kept (their Gram matrix K, n × n). From them follow, exactly and for any
clipping norm C and any choice of units: each norm ‖gᵢ‖ = √Kᵢᵢ, the clipped sum's norm √(cᵀKc) with
cᵢ = min(1, C/‖gᵢ‖), and all positions along the principal directions of the gradients. So knobs move without a model,
and this module needs no torch. `core.training.inside_step` computes K.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from core.common.files import replaced


@dataclass(frozen=True)
class StepGradients:
    """The gradients of the units in one step's sample, as inner products.

    `patients` (n,) is the patient of each unit, and `notes` (n,) its note, or its first one if a unit is a patient.
    `gram` (n, n) are the inner products of the units' gradients. The model has `parameters` trainable numbers, and a
    step divides its sum by `expected` units. `sampled` units were in the sample, of which n are here.
    """

    notes: tuple[str, ...]
    patients: tuple[str, ...]
    gram: np.ndarray
    parameters: int
    expected: float
    sampled: int

    def __len__(self) -> int:
        return len(self.notes)

    @cached_property
    def norms(self) -> np.ndarray:
        """Length of each unit's gradient, (n,)."""
        return np.sqrt(np.diag(self.gram))

    @cached_property
    def _principal(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(self.gram)  # ascending
        values, vectors = values[::-1][:2].clip(min=0), vectors[:, ::-1][:, :2]
        vectors = vectors * np.where(vectors.sum(0) < 0, -1.0, 1.0)  # most gradients point to the right and up
        return values, vectors

    @property
    def places(self) -> np.ndarray:
        """The gradients along their two principal directions (uncentred PCA), (n, 2).

        K = VΛVᵀ gives the unit directions uₖ = Gᵀvₖ/√λₖ, along which unit i lies at √λₖ·vᵢₖ. A single gradient has one
        direction, and lies at 0 along the second.
        """
        values, vectors = self._principal
        along = np.zeros((len(self), 2))
        along[:, : len(values)] = np.sqrt(values) * vectors
        return along

    @property
    def explained(self) -> float:
        """Share of the gradients' squared lengths that lies along the two directions."""
        return float(self._principal[0].sum() / np.trace(self.gram))

    def clipped(self, norm: float, chosen: np.ndarray) -> ClippedSum:
        """The sum of the `chosen` units' gradients (bool, (n,)), each clipped to `norm`."""
        factors = np.minimum(1.0, norm / np.maximum(self.norms, 1e-30)) * chosen
        return ClippedSum(
            factors=factors,
            length=float(np.sqrt(max(0.0, factors @ self.gram @ factors))),
            place=factors @ self.places,
            clipped=int((chosen & (self.norms > norm)).sum()),
        )

    def save(self, file: Path, *, private: bool) -> None:
        """Write to a safetensors file, which only its owner may read if it is `private` (of imported notes)."""
        names = {"notes": "\n".join(self.notes), "patients": "\n".join(self.patients)}
        numbers = {"parameters": str(self.parameters), "expected": str(self.expected), "sampled": str(self.sampled)}
        with replaced(file, private=private) as unfinished:
            unfinished.write_bytes(save({"gram": self.gram.astype(np.float32)}, metadata={**names, **numbers}))

    @classmethod
    def load(cls, file: Path) -> StepGradients:
        """Read what `save` wrote. Raises FileNotFoundError."""
        with safe_open(file, "numpy") as stored:
            told = stored.metadata()
            return cls(
                notes=tuple(told["notes"].split("\n")),
                patients=tuple(told["patients"].split("\n")),
                gram=stored.get_tensor("gram").astype(np.float64),
                parameters=int(told["parameters"]),
                expected=float(told["expected"]),
                sampled=int(told["sampled"]),
            )


@dataclass(frozen=True)
class ClippedSum:
    """A clipped sum: each unit's factor (n,), the sum's length and place (2,), and how many units were cut."""

    factors: np.ndarray
    length: float
    place: np.ndarray
    clipped: int
