"""Requests through the page: previewed first, then published in the user's name."""
