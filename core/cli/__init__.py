"""The commands of `python -m core`, one module per group; `core.__main__` lists them.

Input: typed options. Output: an answer on standard output, as text or one JSON document, and errors as one sentence on
standard error. Heavy modules are imported inside the commands.
"""
