"""The viewer, what they may see, and what the server keeps for all sessions.

`resources` has the decorators with which all parts declare caches and process-wide objects, and those that several
parts share. It imports no other part.
"""
