"""Notes that a user brings: the boxes, the check in the background, what it found, and the form around them."""
