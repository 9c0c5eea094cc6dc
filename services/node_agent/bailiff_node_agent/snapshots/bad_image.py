"""Why a snapshot is of no use."""


class BadImage(Exception):
    """The snapshot is not the one on record, or not whole; the message says why."""
