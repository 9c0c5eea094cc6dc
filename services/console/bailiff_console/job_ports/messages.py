"""Pages that the proxy itself sends instead of the job's."""

from dataclasses import dataclass, field
from html import escape

from .headers import Headers

RELOAD_S = 5


@dataclass(frozen=True, slots=True)
class Answer(Exception):
    """A response of the proxy. reloads: the page asks again by itself."""

    status: int
    text: str
    reloads: bool = False
    headers: Headers = field(default_factory=list)

    def body(self) -> bytes:
        """HTML without scripts."""
        again = f'<meta http-equiv="refresh" content="{RELOAD_S}">' if self.reloads else ""
        title = "Not available now" if self.reloads else "Not available"
        page = (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8">{again}<title>Bailiff</title></head>'
            f"<body><main><h1>{title}</h1><p>{escape(self.text)}</p></main></body></html>"
        )
        return page.encode()

    def all_headers(self) -> Headers:
        """Those of the page, and its own."""
        return [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cache-control", b"no-store"),
            *([(b"retry-after", str(RELOAD_S).encode())] if self.reloads else []),
            *self.headers,
        ]


def redirect(to: str, *headers: tuple[bytes, bytes]) -> Answer:
    """To another address."""
    return Answer(303, "", headers=[(b"location", to.encode()), *headers])
