"""Text from users and programs, made harmless for terminals and pages."""

import re

# Escapes other than colours, control characters but tab and line ends, and marks that reorder or hide text.
_COLOUR = r"\x1b\[[0-9;]*m"
_CONTROL = r"[^\x20-\x7e\t\n\r\x85\xa0-\U0010ffff]"
_HIDDEN = r"[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
_HARMFUL = re.compile(f"{_COLOUR}|{_CONTROL}|{_HIDDEN}")
RESETS = ("\x1b[0m", "\x1b[m")


def plain(text: str) -> str:
    """The text with unprintable characters, including control characters, replaced."""
    return "".join(char if char.isprintable() else "�" for char in text)


def plain_cells(line: str) -> str:
    """As `plain`, for a line with cells separated by tabs."""
    return "\t".join(map(plain, line.split("\t")))


def harmless_output(text: str, *, colours: bool) -> str:
    """The output of a program: lines and tabs stay, also colours if wanted; the terminal is not left coloured."""
    shown = _HARMFUL.sub(lambda found: _kept(found[0], colours), text)
    coloured = re.findall(_COLOUR, shown)
    return shown if not coloured or coloured[-1] in RESETS else f"{shown}{RESETS[0]}"


def _kept(text: str, colours: bool) -> str:
    if not text.startswith("\x1b["):
        return "�"
    return text if colours else ""
