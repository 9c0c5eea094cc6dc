"""Anonymised datasets of a log for publication: pseudonyms for names, shifted times, and only allowlisted fields.

`rules` are what is done with a field, as its type says, `anonymise` builds an anonymised log with its own chain, and `tables` and
`folder` write it as CSV for use without Bailiff. The format is described in docs/how-to/dataset.md.
"""

from .folder import Dataset, write_dataset
from .pseudonyms import Pseudonyms, kept_key, new_key

__all__ = ["Dataset", "Pseudonyms", "kept_key", "new_key", "write_dataset"]
