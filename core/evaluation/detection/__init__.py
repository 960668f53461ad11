"""How much a detector of identifiers finds: on labelled files, on a user's own notes, and as stored for pages."""
