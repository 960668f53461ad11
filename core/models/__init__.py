"""Small GPT-2, DistilBERT and BERT models: built, loaded, tokenized, scored and sampled.

A `ModelSpec` or a folder enters; a `LanguageModel` leaves. Only safetensors are loaded.
"""
