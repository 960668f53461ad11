"""Language models: built from a configuration, or loaded from assets, a folder or the Hugging Face hub."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch

from core.common.files import follow_folder
from core.common.transformers_parts import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    BertConfig,
    DistilBertConfig,
    GPT2Config,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    cached_file,
)
from core.models.local_attention import init_local_attention
from core.models.shipped_bases import ModelNotFound, shipped_folder
from core.models.tokenizer import END_OF_TEXT, MASKED_SPECIALS
from core.spec import SHIPPED_BASES, ModelKind, ModelSize, ModelSpec

CONTEXT = 256  # tokens: longer than every sample (192) and every prompt with its answer; no base may read fewer
VOCABULARY = 3_072
ACTIVATION = "gelu_pytorch_tanh"  # the same function as GPT-2's gelu_new, in one fused kernel (1.2 × faster on a CPU)
_SHAPES: dict[ModelSize, tuple[int, int, int]] = {  # layers, width, heads
    "micro": (3, 64, 2),
    "tiny": (4, 128, 4),
    "small": (5, 256, 8),
}

WEIGHTS_INDEX = "model.safetensors.index.json"  # names the files of weights that were split
_SHARD = re.compile(r"[\w.-]+\.safetensors")

# transformers changes global state of torch and of its own while it builds a model: concurrent loads would interfere.
_LOADING = threading.Lock()


class UnknownModelKind(ValueError):
    """A model is of an unsupported kind. The message names it and the supported ones."""


@dataclass
class LanguageModel:
    """A model with its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    kind: ModelKind

    @property
    def causal(self) -> bool:
        """True for GPT-2, which reads left to right; False for the masked kinds."""
        return self.kind == "gpt2"

    @property
    def context(self) -> int:
        """Most tokens of one sequence, special tokens included."""
        return int(self.model.config.max_position_embeddings)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.model.device

    def hidden(self, ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        """Last hidden states: (B, T) token ids → (B, T, width). `attention_mask` is 1 for tokens and 0 for padding."""
        cache = {"use_cache": False} if self.causal else {}
        return self.model.base_model(input_ids=ids, attention_mask=attention_mask, **cache)[0]

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits of hidden states of any leading shape: (…, width) → (…, vocabulary)."""
        model: Any = self.model  # torch gives every part of a module the type Tensor | Module
        if self.kind == "gpt2":
            return model.lm_head(hidden)
        if self.kind == "bert":
            return model.cls(hidden)
        hidden = model.activation(model.vocab_transform(hidden))
        return model.vocab_projector(model.vocab_layer_norm(hidden))

    def save(self, folder: Path) -> None:
        """Write configuration, weights (safetensors) and tokenizer into `folder`. The caller makes this atomic."""
        self.model.save_pretrained(folder)
        for weights in folder.glob("*.safetensors"):
            follow_folder(weights)
        self.tokenizer.save_pretrained(folder)


def new(kind: ModelKind, size: ModelSize, tokenizer: PreTrainedTokenizerFast) -> LanguageModel:
    """A model with random weights (torch's global generator), no dropout and tied embeddings.

    The first layer of the masked kinds starts with attention to neighbouring tokens (`core.models.local_attention`).
    """
    with _LOADING:
        model = _model_class(kind).from_config(_config(kind, size, tokenizer))
    if kind != "gpt2":
        init_local_attention(model, kind)
    return LanguageModel(model=model.to(usual_device()), tokenizer=tokenizer, kind=kind)


def _config(kind: ModelKind, size: ModelSize, tokenizer: PreTrainedTokenizerFast) -> PretrainedConfig:
    layers, width, heads = _SHAPES[size]
    shared = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "tie_word_embeddings": True}
    if kind == "gpt2":
        return GPT2Config(
            n_positions=CONTEXT,
            n_embd=width,
            n_layer=layers,
            n_head=heads,
            activation_function=ACTIVATION,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            **shared,
        )
    if kind == "distilbert":
        return DistilBertConfig(
            max_position_embeddings=CONTEXT,
            dim=width,
            n_layers=layers,
            n_heads=heads,
            hidden_dim=4 * width,
            activation=ACTIVATION,
            dropout=0.0,
            attention_dropout=0.0,
            seq_classif_dropout=0.0,
            **shared,
        )
    return BertConfig(
        max_position_embeddings=CONTEXT,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        hidden_act=ACTIVATION,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        **shared,
    )


def _model_class(kind: ModelKind) -> type[AutoModelForCausalLM] | type[AutoModelForMaskedLM]:
    if kind not in get_args(ModelKind):
        raise UnknownModelKind(f"unknown kind of model {kind!r}: choose {', '.join(get_args(ModelKind))}")
    return AutoModelForCausalLM if kind == "gpt2" else AutoModelForMaskedLM


def load(spec: ModelSpec) -> LanguageModel:
    """Load the public model that a spec names: a shipped one, in a folder, or on the Hugging Face hub.

    Raises:
        ModelNotFound: when files are missing or damaged.
        ValueError: when the model is of another kind than requested, reads too few tokens, or is that of a run.
    """
    if spec.shipped:
        folder = shipped_folder(spec)
        if not (folder / "config.json").is_file():
            raise ModelNotFound(
                f"The base model {spec.kind}-{spec.size} is not shipped: {folder / 'config.json'} does not exist. "
                f"Make it with `python -m core pretrain --model {spec.kind} --size {spec.size} --text FILE…`."
            )
        lm = load_folder(folder)
    elif Path(spec.base).is_dir():
        _refuse_trained(Path(spec.base))
        lm = load_folder(Path(spec.base))
    else:
        lm = _load_hub(spec.base)
    if lm.kind != spec.kind:
        raise ValueError(f"{spec.base} holds a {lm.kind} model, not a {spec.kind} model: choose the kind {lm.kind}")
    if lm.context < CONTEXT:
        raise ValueError(
            f"{spec.base} reads {lm.context} tokens at a time, and the attacks need {CONTEXT}: choose another model"
        )
    return lm


def _refuse_trained(folder: Path) -> None:
    """Raise ValueError for the model of a run of this program: it has read notes, so it is no public base."""
    for place in (folder.resolve(), folder.resolve().parent):
        if (place / "spec.json").is_file():
            raise ValueError(
                f"{folder} is the model of the run in {place}, which was trained on notes. A base model must have read "
                "none of a hospital's notes, or no ε of a model made from it would hold: choose a public one."
            )


def load_folder(path: Path | str) -> LanguageModel:
    """Load a model written by `save` or `save_pretrained`. Raises ModelNotFound naming the missing or damaged file."""
    folder = Path(path)
    how = "Copy the whole folder again, or choose another model."
    for names in (("config.json",), ("tokenizer.json",), ("model.safetensors", WEIGHTS_INDEX)):
        if not any((folder / name).is_file() for name in names):
            raise ModelNotFound(f"{folder} has no file {names[0]}. {how}")
    try:
        return _load(str(folder))
    except UnknownModelKind:
        raise
    except Exception as error:  # transformers, tokenizers and safetensors raise a dozen types for damaged files
        raise ModelNotFound(
            f"The model in {folder} cannot be read: {_first_line(error)} One of its files is damaged or incomplete, "
            f"for example by an interrupted download. {how}"
        ) from error


def _load_hub(name: str) -> LanguageModel:
    if name.startswith(("/", "./", "../", "~")):  # of no shipped base, and of nothing on the hub
        raise ModelNotFound(f"There is no folder {name} with a model.")
    try:
        return _load(name)
    except UnknownModelKind:
        raise
    except Exception as reason:  # as above, and any network error
        raise ModelNotFound(
            f"{name!r} is neither a shipped base ({', '.join(SHIPPED_BASES)}) nor a folder here, and config.json, "
            f"tokenizer.json and model.safetensors of that name could not be loaded from the Hugging Face hub or its "
            f"cache: {_first_line(reason)} On a machine "
            f"with internet run `hf download {name} config.json tokenizer.json model.safetensors --local-dir DIR`, "
            "then give DIR as the base."
        ) from reason


def _load(source: str) -> LanguageModel:
    """Load from a folder or a hub name, one at a time: only safetensors, and never code that comes with the model."""
    with _LOADING:
        return _load_alone(source)


def _refuse_other_weights(source: str) -> None:
    """Raise RuntimeError if an index of weights names files that are not safetensors beside it.

    transformers would load such a file by its ending, a pickled one too.
    """
    index = cached_file(source, WEIGHTS_INDEX, _raise_exceptions_for_missing_entries=False)
    if index is None:
        return
    named = json.loads(Path(index).read_text(encoding="utf-8"))["weight_map"].values()
    other = sorted({str(name) for name in named if not _SHARD.fullmatch(str(name))})
    if other:
        raise RuntimeError(f"{WEIGHTS_INDEX} names {other[0]!r}, and only safetensors in the same place are loaded.")


def _load_alone(source: str) -> LanguageModel:
    _refuse_other_weights(source)
    config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    kind = config.model_type
    model_class = _model_class(kind)
    for key in ("activation_function", "activation", "hidden_act"):
        if getattr(config, key, None) == "gelu_new":
            setattr(config, key, ACTIVATION)
    loaded: Any = model_class.from_pretrained(  # transformers declares no pair, which `output_loading_info` gives
        source,
        config=config,
        use_safetensors=True,
        trust_remote_code=False,
        dtype=torch.float32,
        output_loading_info=True,
    )
    model, loading = loaded
    if loading["missing_keys"]:  # transformers would only warn and fill them with random numbers
        raise RuntimeError(f"The weights lack {', '.join(sorted(loading['missing_keys'])[:3])}.")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(source)
    specials = {"bos_token": END_OF_TEXT, "eos_token": END_OF_TEXT} if kind == "gpt2" else MASKED_SPECIALS
    for name, token in specials.items():
        if getattr(tokenizer, name) is None:
            setattr(tokenizer, name, token)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    lacking = [name for name in (*specials, "pad_token") if not _knows(tokenizer, name)]
    if lacking:
        raise RuntimeError(f"Its tokenizer has no {' and no '.join(lacking)}.")
    return LanguageModel(model=model.eval().to(usual_device()), tokenizer=tokenizer, kind=kind)


def _knows(tokenizer: PreTrainedTokenizerFast, name: str) -> bool:
    """Whether a special token, such as `mask_token`, is in the vocabulary; if not, its id is None or that of [UNK]."""
    number = getattr(tokenizer, f"{name}_id")
    return number is not None and tokenizer.convert_ids_to_tokens(number) == str(getattr(tokenizer, name))


def usual_device() -> torch.device:
    """The device for new and loaded models, and so for training, scoring and generation: the GPU if there is one.

    Everything computed for a model uses `LanguageModel.device`. Files store no device, so a model that was trained on a
    GPU can be loaded on a CPU.
    """
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def accelerator(device: torch.device) -> str | None:
    """The name of a GPU, for example “NVIDIA H200”; None for a CPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else None


def _first_line(error: Exception) -> str:
    line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip()
    return line if line.endswith(".") else line + "."
