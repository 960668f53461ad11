"""A training run's state on disk, so that an interrupted job can resume.

One safetensors file holds the tensors (weights, optimiser, averaged weights) and, in its metadata, a JSON text with the
rest (step, history). It is written to a temporary file that then replaces the old one, so a reader always finds a
complete state. There is no random state to store, because every draw comes from (source, purpose, step); see
`core.common.randomness`. The key of a run with secret noise is not part of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from core.common.files import follow_folder, make_folder, replaced

FILE = "state.safetensors"


def write(folder: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Replace the checkpoint in `folder` (created if missing). Raises OSError on a full disk; the old one stays."""
    try:
        with replaced(make_folder(folder) / FILE) as unfinished:
            save_file(
                {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
                unfinished,
                metadata={"state": json.dumps(state)},
            )
            follow_folder(unfinished)
    except SafetensorError as error:
        raise OSError(f"the checkpoint could not be written to {folder}: {error}") from error


def read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and state of the checkpoint in `folder`, or None if there is none.

    Raises:
        ValueError: when the file is damaged.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            state = json.loads(file.metadata()["state"])
            return {name: file.get_tensor(name) for name in file.keys()}, state  # noqa: SIM118
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"the checkpoint {path} cannot be read ({error}): delete it to restart this run") from error
