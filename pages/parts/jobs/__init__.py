"""Background jobs on screen: the training queue, live progress, and the button for a full audit."""
