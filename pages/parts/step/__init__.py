"""Parts of the page Inside a step: one sample's gradients, and the pictures of their clipped and noised sum."""
