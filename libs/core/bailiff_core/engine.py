"""Versions of the engine. `LOGIC` rises with every change of what `decide` or a search yields for the same state."""

LOGIC = 13
RELEASE = "0.1.0"
STATE_SCHEMA = 12
