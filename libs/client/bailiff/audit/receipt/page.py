"""The receipt as one page of HTML that checks itself in a browser without network.

Only the receipt's JSON differs between two pages of a release: it cannot end its element, since each `<` in it is escaped, and
the page writes its contents as text. The policy in the page (CSP) permits the one script and the one style in it, and no network.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from .model import InvalidReceipt

DATA = '<script type="application/json" id="receipt">'
END = "</script>"


@cache
def _shell() -> tuple[str, str]:
    """What is before and after the JSON."""
    script, style = (files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("verifier.js", "verifier.css"))
    policy = (
        f"default-src 'none'; script-src '{_source(script)}'; style-src '{_source(style)}'; "
        "base-uri 'none'; form-action 'none'; img-src data:"
    )
    before = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Receipt of a preemption</title>
<style>{style}</style>
</head>
<body>
<main id="page">
<h1>This receipt has not been checked</h1>
<p>The page did not run its own verifier. Check the file with: <code>bailiff audit check-receipt FILE</code></p>
</main>
{DATA}"""
    return before, f"{END}\n<script>{script}</script>\n</body>\n</html>\n"


def _source(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def page_of(text: str) -> str:
    """The page with this receipt, which is canonical JSON."""
    before, after = _shell()
    return f"{before}{text}{after}"


def text_in(content: str) -> str:
    """The receipt's JSON in a page, or in a file that holds only that.

    Raises:
        InvalidReceipt: There is none, or more than one.
    """
    if content.startswith("{"):
        return content.removesuffix("\n")
    _, mark, rest = content.partition(DATA)
    text, end, _ = rest.partition(END)
    if not mark or not end or DATA in rest:
        raise InvalidReceipt("not a page with a receipt")
    return text


def is_own_page(content: str) -> bool:
    """Whether this release writes exactly this page, so that what it shows in a browser can be believed."""
    return content == page_of(text_in(content))
