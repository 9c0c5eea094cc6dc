"""Requests: publish one, wait for its outcome, preview it; the texts and files that people write for them."""
