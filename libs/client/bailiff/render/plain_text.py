"""Removes control characters from external text, so that it is safe to print on a terminal."""


def plain(text: str) -> str:
    """The text with unprintable characters, including control characters, replaced."""
    return "".join(char if char.isprintable() else "�" for char in text)
