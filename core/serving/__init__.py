"""Models that answer prompts for many sessions at once: batched, streamed token by token.

A prompt with seeds enters; a `Stream` that grows leaves.
"""
