"""Small GPT-2, DistilBERT and BERT models: building, loading, tokenising, scoring and sampling.

Takes a `ModelSpec` or a folder; returns a `LanguageModel`. Only safetensors are loaded.
"""
