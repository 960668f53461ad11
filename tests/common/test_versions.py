"""What a run says about the software and the GPU that trained it."""

import torch

from core.common.versions import versions_text, with_these
from core.models.build import accelerator


def test_a_training_on_a_gpu_is_another_one_than_on_a_cpu():
    first = with_these([])
    assert with_these(first) == first and "accelerator" not in first[0]
    both = with_these(first, "NVIDIA H200")
    assert both == [*first, {**first[0], "accelerator": "NVIDIA H200"}]
    assert with_these(both, "NVIDIA H200") == both and with_these(both) == [*both, *first]


def test_a_gpu_is_named_last_and_without_its_key():
    assert versions_text(with_these([], "NVIDIA H200")[0]).endswith(", NVIDIA H200")


def test_a_cpu_has_no_name(monkeypatch):
    assert accelerator(torch.device("cpu")) is None
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {device.index}")
    assert accelerator(torch.device("cuda", 1)) == "GPU 1"
