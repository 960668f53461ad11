"""The viewer, what they may see, and what the server keeps for all sessions.

`resources` holds every cache and process-wide object and imports no other part.
"""
