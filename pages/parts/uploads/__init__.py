"""Uploading notes: the upload boxes, the check in the background, its findings, and the form around them."""
