"""The built page in the package: current, and without resources from other servers."""

import gzip
import hashlib
import re
from pathlib import Path

import bailiff_console

WEB = Path(bailiff_console.__file__).parent / "web"
FRONTEND = Path(__file__).parents[3] / "services" / "console" / "frontend"
SOURCES = ("index.html", "package-lock.json", "public", "src", "vite.config.ts")
RULES = "../../../libs/client/bailiff/audit/receipt/rules.json"
LARGEST_START = 250_000
NAMES_ONLY = ("http://www.w3.org/",)  # XML namespaces, never fetched


def test_the_page_was_built_from_these_sources() -> None:
    found: list[str] = []
    for name in SOURCES:
        path = FRONTEND / name
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        found += [each.relative_to(FRONTEND).as_posix() for each in files]
    total = hashlib.sha256()
    for name in sorted(found):
        total.update(f"{name}\n{hashlib.sha256((FRONTEND / name).read_bytes()).hexdigest()}\n".encode())
    assert (WEB / "built-from.txt").read_text().strip() == total.hexdigest(), "the sources have changed since: make web"


def test_the_verifier_in_receipts_was_built_from_these_sources() -> None:
    names = [
        path.relative_to(FRONTEND).as_posix()
        for folder in ("src/receipt", "src/verify")
        for path in (FRONTEND / folder).iterdir()
    ]
    names += ["package-lock.json", "receipt.config.ts", "src/styles/base.css", "src/styles/tokens.css", RULES]
    names += [
        f"src/lib/{name}"
        for name in ("amounts.ts", "eviction-texts.json", "evictionTexts.ts", "exitText.ts", "sanitizeLine.ts", "signals.json")
    ]
    total = hashlib.sha256()
    for name in sorted(names):
        total.update(f"{name}\n{hashlib.sha256((FRONTEND / name).read_bytes()).hexdigest()}\n".encode())
    built = FRONTEND / RULES
    assert built.with_name("built-from.txt").read_text().strip() == total.hexdigest(), "the sources have changed since: make web"
    script = built.with_name("verifier.js").read_text()
    assert not re.search("</script|<!--|eval\\(|new Function|fetch\\(|XMLHttpRequest|innerHTML", script)


def test_the_page_has_no_inline_script_or_style() -> None:
    page = (WEB / "index.html").read_text()
    assert "<style" not in page
    assert re.findall(r"<script(?![^>]* src=)", page) == []
    assert re.findall(r'\son\w+="', page) == []


def test_every_asset_of_the_page_is_in_the_package() -> None:
    page = (WEB / "index.html").read_text()
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(addresses) >= 3
    for address in addresses:
        assert address.startswith("/assets/"), address
        assert (WEB / address.lstrip("/")).is_file(), address


def test_the_start_page_is_at_most_250_kb_compressed() -> None:
    page = (WEB / "index.html").read_text()
    todo = [WEB / address.lstrip("/") for address in re.findall(r'(?:src|href)="(/assets/[^"]+)"', page)]
    todo += WEB.glob("assets/OverviewPage-*")
    first: dict[Path, int] = {}
    while todo:
        file = todo.pop()
        if file in first or not file.is_file():
            continue
        first[file] = len(gzip.compress(file.read_bytes(), mtime=0))
        if file.suffix == ".js":
            static = re.findall(r'(?:from|import)\s*"\./([\w.-]+\.js)"', file.read_text())
            todo += [file.parent / name for name in static]
    assert any(file.name.startswith("OverviewPage") for file in first)
    assert len(first) > 5  # the imports were found
    assert sum(first.values()) <= LARGEST_START, {file.name: size for file, size in first.items()}


def test_no_stylesheet_loads_from_another_server() -> None:
    for sheet in WEB.rglob("*.css"):
        for address in re.findall(r"url\(([^)]*)\)|@import\s+([^;]*)", sheet.read_text()):
            assert not any("//" in each for each in address if not each.startswith(NAMES_ONLY)), (sheet.name, address)
