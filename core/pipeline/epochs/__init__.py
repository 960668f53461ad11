"""What a training reports after each epoch: the held-out loss, the exposure of tracked canaries, and a sample text."""
