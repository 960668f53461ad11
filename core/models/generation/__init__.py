"""Text from language models: sampling with GPT-2, filled masks and Gibbs sampling with masked models.

Prompts and one seed a row enter; texts leave, the same whether a row is generated alone or in a batch.
"""
