"""Text generation: sampling with GPT-2, filled masks and Gibbs sampling with masked models.

Takes prompts and one seed per row. Returns texts, which are the same whether a row is generated alone or in a batch.
"""

MASK = "[MASK]"
MASKED_SWEEPS = 2  # each token is redrawn once; a masked model reads the whole text for every draw, so sweeps are slow
