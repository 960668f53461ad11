"""The commands of `python -m core`, a module a group; `core.__main__` lists them.

Arguments enter as typed options. An answer leaves on standard output, as text or one JSON document, and errors as one
sentence on standard error. Heavy modules are imported inside the commands.
"""
