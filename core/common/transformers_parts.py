"""The parts of transformers in use, imported in one place, after Opacus; `core.common.opacus_parts` explains why."""

from __future__ import annotations

from core.common import opacus_parts  # noqa: F401 — the two must not be imported at the same time

# isort: split
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    Cache,
    DistilBertConfig,
    DistilBertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    logging,
)
from transformers.models.bert.modeling_bert import BertLMPredictionHead
from transformers.pytorch_utils import Conv1D
from transformers.utils import cached_file

# The Auto classes build the models of masked kinds and would otherwise import them later, in any thread.
__all__ = [
    "AutoConfig",
    "AutoModelForCausalLM",
    "AutoModelForMaskedLM",
    "BertConfig",
    "BertForMaskedLM",
    "BertLMPredictionHead",
    "Cache",
    "Conv1D",
    "DistilBertConfig",
    "DistilBertForMaskedLM",
    "GPT2Config",
    "GPT2LMHeadModel",
    "PreTrainedModel",
    "PreTrainedTokenizerBase",
    "PreTrainedTokenizerFast",
    "PretrainedConfig",
    "cached_file",
]

logging.set_verbosity_error()
logging.disable_progress_bar()
