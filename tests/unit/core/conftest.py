"""The stories of `tests/kits/stories.py`."""

from tests.kits.stories import story, tell

__all__ = ["story", "tell"]
