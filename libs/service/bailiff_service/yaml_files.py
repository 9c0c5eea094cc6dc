"""Reads YAML files with the line of every value, so that faults can be reported with their line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

Place = tuple[int | str, ...]
Lines = dict[Place, int]
MAX_DEPTH = 50
MAX_REPEATED = 10_000
"""Values that aliases repeat: a few lines of nested ones stand for billions."""
MAX_BYTES = 64 << 20
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableFile(Exception):
    """The file cannot be read or is not YAML. The text is one sentence with file and line."""


def line_of(lines: Mapping[Place, int], place: Place) -> int:
    """The line of the place, or of the innermost known place that contains it."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def read_yaml(path: Path) -> tuple[Any, Lines]:
    """The file's content, and the line of every place in it. Raises `UnreadableFile`."""
    return parse_yaml(read_text(path), str(path))


def parse_yaml(text: str, name: str) -> tuple[Any, Lines]:
    """The text's content, and the line of every place in it. name: of the file in errors. Raises `UnreadableFile`."""
    return _parse(text, name, aliases=True)


def parse_untrusted_yaml(text: str, name: str) -> tuple[Any, Lines]:
    """As `parse_yaml`, for untrusted text: aliases, which can expand exponentially, are rejected."""
    return _parse(text, name, aliases=False)


def _parse(text: str, name: str, aliases: bool) -> tuple[Any, Lines]:
    try:
        _check_limits(text, name, aliases)
        return _read(text, name)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ""
        tab = "indented with a tab: YAML requires spaces" if "\t" in line[: len(line) - len(line.lstrip())] else ""
        raise UnreadableFile(f"{where}: not YAML: {tab or getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise UnreadableFile(f"{name}: unreadable YAML: an anchor contains itself") from None
    except ValueError as error:
        raise UnreadableFile(f"{name}: unreadable YAML: {error}") from None


def _check_limits(text: str, name: str, aliases: bool) -> None:
    """Check nesting depth and aliases on the event stream: libyaml's recursive readers crash on text that is nested too deep."""
    depth = values = repeated = 0
    begun: list[tuple[str | None, int]] = []  # anchor of each open collection, and how many values came before it
    sizes: dict[str | None, int] = {}  # values in each anchored node, those of its aliases included
    for event in yaml.parse(text, Loader=LOADER):
        where = f"{name}:{event.start_mark.line + 1}" if event.start_mark is not None else name
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise UnreadableFile(f"{where}: nested more than {MAX_DEPTH} deep")
        if not aliases and isinstance(event, yaml.AliasEvent):
            raise UnreadableFile(f"{where}: *{event.anchor}: aliases are not allowed here; write the value out")
        if isinstance(event, yaml.AliasEvent):
            size = sizes.get(event.anchor, 1)
            values, repeated = values + size, repeated + size
            if repeated > MAX_REPEATED:
                raise UnreadableFile(f"{where}: *{event.anchor}: aliases repeat more than {MAX_REPEATED} values")
        elif isinstance(event, yaml.CollectionStartEvent):
            begun.append((event.anchor, values))
            values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = begun.pop()
            sizes[anchor] = values - before
        elif isinstance(event, yaml.ScalarEvent):
            values += 1
            sizes[event.anchor] = 1


def _read(text: str, name: str) -> tuple[Any, Lines]:
    lines: Lines = {}
    loader = LOADER(text)
    try:
        tree = loader.get_single_node()
        if tree is None:
            return None, lines
        _note_lines(tree, (), lines, name)
        try:
            return loader.construct_document(tree), lines
        except (AttributeError, LookupError):  # raised by PyYAML for values such as `!!bool maybe`
            raise UnreadableFile(f"{name}: unreadable YAML: a value does not match its tag (!!)") from None
    finally:
        loader.dispose()


def read_text(path: Path) -> str:
    """The file's text. Raises `UnreadableFile`."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise UnreadableFile(f"{path}: larger than {MAX_BYTES >> 20} MiB")
        return content.decode()
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path}: is not UTF-8") from None


def _note_lines(node: yaml.Node, place: Place, lines: Lines, file: str) -> None:
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note_lines(item, (*place, index), lines, file)
    elif isinstance(node, yaml.MappingNode):
        for key, item in node.value:
            inner = (*place, str(key.value))
            if inner in lines:
                raise UnreadableFile(f"{file}:{key.start_mark.line + 1}: {key.value} occurs twice")
            lines[inner] = key.start_mark.line + 1
            _note_lines(item, inner, lines, file)
