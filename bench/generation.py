"""Prompt attacks: `python -m core bench generation --json`.

The attack of the PrivAI-Leak report is 14 prompts × 50 records × 2 samples = 1,400 attempts of 80 tokens. One side
makes them as the report does, with one `transformers.generate` call for two samples at a time. It is measured on one
call per prompt (28 attempts) and scaled to 1,400, since all calls are alike. The other side makes all 1,400 with
`core.attacks.memorisation.extraction.generate`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from transformers import set_seed

from bench._models import chosen, random_model
from bench._ratio import Figures, figure, in_turns, show
from core.attacks.memorisation.extraction import generate
from core.attacks.prompts import PROMPTS
from core.models.build import LanguageModel, load
from core.spec import AuditSpec, ModelSpec

TOGETHER = 2  # samples per call in the report's attack


def main(json: bool = False, rounds: int = 5, shape: str = "tiny", device: str = "cpu") -> None:
    """Print the figure of generation, for the shipped model or one with random weights of another shape."""
    size = chosen(shape, device)
    lm = load(ModelSpec()) if shape == "tiny" else random_model("gpt2", size, device=device)
    torch.nn.Module.to(lm.model, device)
    show(measure(rounds, lm=lm), json=json)


def measure(rounds: int, *, lm: LanguageModel, attempts: int = 1_400, new_tokens: int = 80) -> Figures:
    """The figure, for `attempts` (a multiple of 14) of `new_tokens` tokens."""
    audit = AuditSpec(samples_per_prompt=attempts // len(PROMPTS), new_tokens=new_tokens)
    sides = {"one by one": _one_by_one(lm, audit), "ours": lambda: generate(lm, audit)}
    seconds = in_turns(sides, rounds)
    scale = attempts / (TOGETHER * len(PROMPTS))
    return figure("attempts_one_by_one_over_ours", scale * seconds["one by one"], seconds["ours"])


def _one_by_one(lm: LanguageModel, audit: AuditSpec) -> Callable[[], None]:
    """One call of `generate` per prompt, with two samples each."""

    def run() -> None:
        set_seed(audit.seed)
        for prompt in PROMPTS:
            ids = [lm.tokenizer.bos_token_id, *lm.tokenizer(prompt.text, add_special_tokens=False)["input_ids"]]
            found = torch.tensor([ids], device=lm.device)
            texts = lm.model.generate(  # type: ignore[operator]  # the library types it for its mixin alone
                found,
                attention_mask=torch.ones_like(found),
                do_sample=True,
                num_return_sequences=TOGETHER,
                max_new_tokens=audit.new_tokens,
                temperature=audit.temperature,
                top_k=audit.top_k,
                top_p=audit.top_p,
                pad_token_id=lm.tokenizer.eos_token_id,
            )
            lm.tokenizer.batch_decode(texts[:, len(ids) :], skip_special_tokens=True)

    return run
