"""Background jobs on screen: the queue, live progress, and the button for a full audit."""
