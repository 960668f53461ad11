"""Uploaded cohorts: whose they are, until when they stay, and their deletion with everything made from them."""
