"""`bailiff audit`: read, verify, replay, export and prove the log. The commands read the log itself and trust no service."""

from . import records, verify, replay, export, proofs, receipts, archive  # noqa: F401, I001 - in the order of the help
