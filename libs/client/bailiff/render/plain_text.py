"""Text that came from outside, made safe to print on a terminal."""


def plain(text: str) -> str:
    """The text with unprintable characters replaced, so that a terminal obeys none of them."""
    return "".join(char if char.isprintable() else "�" for char in text)
