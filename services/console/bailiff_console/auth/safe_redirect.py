"""The redirect target after sign-in: always a page of this console."""

from urllib.parse import quote, urlsplit

HOME = "/"
MAX_PATH = 2000
SAFE = "/?&=#%:@!$'()*+,;~-._[]"
RESERVED_PREFIXES = ("/api", "/auth")


def local_path(text: str | None) -> str:
    """The path if it is a page of this console; else the home page."""
    if text is None or not text.startswith("/") or len(text) > MAX_PATH:
        return HOME
    if "\\" in text or any(ord(char) < 0x21 or ord(char) == 0x7F for char in text):
        return HOME  # browsers treat a backslash as a slash and drop tabs and line ends
    try:
        parts = urlsplit(text)
        found = quote(text, safe=SAFE)
    except ValueError:
        return HOME
    if parts.scheme or parts.netloc or text.startswith("//"):
        return HOME
    first = f"/{parts.path[1:].partition('/')[0]}"
    return HOME if first in RESERVED_PREFIXES else found
