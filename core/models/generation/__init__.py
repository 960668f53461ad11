"""Text generation: sampling with GPT-2, filled masks and Gibbs sampling with masked models.

Takes prompts and one seed per row. Returns texts, which are the same whether a row is generated alone or in a batch.
"""
