import pytest
import torch

from core.models import build
from core.models.local_attention import _first_layer


@pytest.mark.parametrize("kind", ["distilbert", "bert"])
@pytest.mark.parametrize("size", ["micro", "tiny", "small"])
def test_each_head_of_the_first_layer_looks_at_its_neighbour(models, kind, size):
    torch.manual_seed(1)
    lm = build.new(kind, size, models[kind].tokenizer)
    heads = lm.model.config.num_attention_heads
    offsets = [-1, 1, -2, 2, -3, 3, -4, 4][:heads]
    with torch.no_grad():
        hidden = lm.model.base_model.embeddings(torch.randint(10, len(lm.tokenizer), (1, 200)))
        query, key, _, _ = _first_layer(lm.model, kind)
        split = [part(hidden).view(200, heads, -1).transpose(0, 1) for part in (query, key)]
        attention = (split[0] @ split[1].transpose(1, 2) / split[0].shape[-1] ** 0.5).softmax(-1)
    for head, offset in enumerate(offsets):
        profile = {step: float(attention[head].diagonal(step).mean()) for step in range(-20, 21)}
        assert max(profile, key=profile.get) == offset
        assert sum(profile[offset + step] for step in (-1, 0, 1)) > 0.4
