"""Models that answer prompts for many sessions at once: batched, and streamed token by token.

Input: a prompt with seeds. Output: a `Stream` that grows.
"""
