"""Docstrings of the public packages name parameters and fields in sections, and only those that exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FOLDERS = ("libs/client/bailiff", "libs/job/bailiff_job", "libs/core/bailiff_core")
SECTIONS = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$", re.MULTILINE)
ENTRY = re.compile(r"^    (\w+(?:, \w+)*): ", re.MULTILINE)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def public(node: ast.AST) -> Iterator[Definition]:
    for each in ast.iter_child_nodes(node):
        if isinstance(each, Definition) and (not each.name.startswith("_") or each.name.endswith("__")):
            yield each
            if isinstance(each, ast.ClassDef):
                yield from public(each)


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = function.args
    packed = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *packed)]


def documented(node: Definition) -> list[str]:
    """The names that a docstring may explain: a function's parameters, or all that a class declares."""
    if not isinstance(node, ast.ClassDef):
        return parameters(node)
    names = [each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    return names + [name for each in node.body if isinstance(each, ast.FunctionDef) for name in (each.name, *parameters(each))]


def inline_names(node: Definition) -> list[str]:
    """The names in the form `name: text` before the first section."""
    text = SECTIONS.split(ast.get_docstring(node) or "")[0]
    return [name for name in documented(node) if re.search(rf"(?:^|(?<=[.;)`] ))`?{name}`?: ", text, re.MULTILINE)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_parameters_and_fields_are_described_in_sections(folder: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": names
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "cli" not in path.parts
        for node in public(ast.parse(path.read_text()))
        if (names := inline_names(node))
    }
    assert not found, "describe these in an Args: or Attributes: section"


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_arguments_in_sections_exist(folder: str) -> None:
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in public(ast.parse(path.read_text())):
            _, *parts = SECTIONS.split(ast.get_docstring(node) or "")
            for title, text in zip(parts[::2], parts[1::2], strict=True):
                names = [name for entry in ENTRY.findall(text) for name in entry.split(", ")]
                if title == "Args":
                    assert set(names) <= set(documented(node)), f"{path}:{node.lineno} {node.name}"
