"""A log as a dataset that may be given away: pseudonyms for names, shifted times, and only what somebody said may go.

`allowed` is the list of what may go, `anonymise` makes another log of one, with a chain of its own, and `tables` and `folder`
write that for people who have pandas and no Bailiff. The format is described in docs/how-to/dataset.md.
"""

from .folder import Dataset, write_dataset
from .pseudonyms import Pseudonyms, kept_key, new_key

__all__ = ["Dataset", "Pseudonyms", "kept_key", "new_key", "write_dataset"]
