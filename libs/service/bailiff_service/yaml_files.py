"""YAML files that people write: what they hold, and on which line, so that a fault can be told where it stands."""

from pathlib import Path
from typing import Any

import yaml

Place = tuple[int | str, ...]
Lines = dict[Place, int]
DEEPEST = 50
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableFile(Exception):
    """The file cannot be read or is not YAML. The text is one sentence with file and line."""


def read_yaml(path: Path) -> tuple[Any, Lines]:
    """What the file holds, and the line of every place in it. Raises `UnreadableFile`."""
    return parse_yaml(read_text(path), str(path))


def parse_yaml(text: str, name: str) -> tuple[Any, Lines]:
    """What the text holds, and the line of every place in it; errors call it `name`. Raises `UnreadableFile`."""
    return _parse(text, name, aliases=True)


def parse_foreign_yaml(text: str, name: str) -> tuple[Any, Lines]:
    """The same for a text of somebody who may mean harm: nothing in it grows when it is read."""
    return _parse(text, name, aliases=False)


def _parse(text: str, name: str, aliases: bool) -> tuple[Any, Lines]:
    try:
        _look_through(text, name, aliases)
        return _read(text, name)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ""
        tab = "a tab before the text: YAML indents with blanks" if "\t" in line[: len(line) - len(line.lstrip())] else ""
        raise UnreadableFile(f"{where}: not YAML: {tab or getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise UnreadableFile(f"{name}: not YAML that can be read: an anchor that holds itself") from None
    except ValueError as error:
        raise UnreadableFile(f"{name}: not YAML that can be read: {error}") from None


def _look_through(text: str, name: str, aliases: bool) -> None:
    """Event by event, which calls nothing within itself: libyaml's other readers end the process where a text is too deep."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        where = f"{name}:{event.start_mark.line + 1}" if event.start_mark is not None else name
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise UnreadableFile(f"{where}: more than {DEEPEST} lists and fields inside one another")
        if not aliases and isinstance(event, yaml.AliasEvent):
            raise UnreadableFile(f"{where}: *{event.anchor}: write it out; aliases are not taken here")


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
        except (AttributeError, LookupError):  # what PyYAML comes to at `!!bool maybe`
            raise UnreadableFile(f"{name}: not YAML that can be read: a value does not fit the tag (!!) before it") from None
    finally:
        loader.dispose()


def read_text(path: Path) -> str:
    """The file's text. Raises `UnreadableFile`."""
    try:
        return path.read_text(encoding="utf-8")
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
