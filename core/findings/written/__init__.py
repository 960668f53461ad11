"""What `python -m core findings` writes: the document docs/findings.md, the claims as text, and their rows as JSON."""
