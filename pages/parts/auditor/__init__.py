"""Parts of the page Be the auditor: the deck of notes, a session's guesses, and the bound they prove."""
