"""Where a person goes back to after sign-in: a page of this console, and never another site."""

from urllib.parse import quote, urlsplit

HOME = "/"
LONGEST = 2000
SAFE = "/?&=#%:@!$'()*+,;~-._[]"
NOT_PAGES = ("/api", "/auth")


def local_path(text: str | None) -> str:
    """The path, where it is one that stays here and is a page; else the start."""
    if text is None or not text.startswith("/") or len(text) > LONGEST:
        return HOME
    if "\\" in text or any(ord(char) < 0x21 or ord(char) == 0x7F for char in text):
        return HOME  # browsers take a backslash for a slash and leave tabs and line ends out
    try:
        parts = urlsplit(text)
        found = quote(text, safe=SAFE)
    except ValueError:
        return HOME
    if parts.scheme or parts.netloc or text.startswith("//"):
        return HOME
    first = f"/{parts.path[1:].partition('/')[0]}"
    return HOME if first in NOT_PAGES else found
