"""Modules of the core imported in another form than their source: with statements that note they ran, or with one change."""

import ast
import builtins
import importlib
import pkgutil
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from .operators import CORE

Rewrite = Callable[[str, ast.Module], ast.Module]
RAN = "__statements_that_ran__"


class _Loader(SourceFileLoader):
    rewrite: Rewrite

    def get_code(self, fullname: str) -> CodeType:
        """Compiled afresh: what is cached is the unchanged form."""
        file = Path(self.path).relative_to(CORE).as_posix()
        tree = ast.parse(self.get_data(self.path))
        return compile(self.rewrite(file, tree), self.path, "exec")


class _Finder:
    def __init__(self, rewrite: Rewrite) -> None:
        self.rewrite = rewrite

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "bailiff_core":
            return None
        spec = PathFinder.find_spec(name, path, target)  # type: ignore[arg-type]
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            loader = _Loader(spec.loader.name, spec.loader.path)
            loader.rewrite, spec.loader = self.rewrite, loader
        return spec


def rewrite_imports(rewrite: Rewrite) -> None:
    """From now on each module of the core is imported as `rewrite` (file, tree) gives it."""
    assert "bailiff_core" not in sys.modules, "the core is imported already"
    sys.meta_path.insert(0, _Finder(rewrite))  # type: ignore[arg-type]


def import_core() -> None:
    """Import every module of the core, so that all its functions exist."""
    core = importlib.import_module("bailiff_core")
    for module in pkgutil.walk_packages(core.__path__, "bailiff_core."):
        importlib.import_module(module.name)


Place = tuple[str, str]


@cache
def places(file: str) -> dict[int, Place]:
    """What names the statements of a file of the core, by line: its text and which one of the equal ones it is.

    It stays the same where other lines of the file change.
    """
    found, equal = {}, Counter[str]()
    for number, line in enumerate((CORE / file).read_text().splitlines(), 1):
        text = line.strip()
        found[number] = file, f"{text} #{equal[text]}"
        equal[text] += 1
    return found


class Statements:
    """Notes which statements of the core ran."""

    def __init__(self) -> None:
        self.known: list[Place] = []
        self._ran = bytearray(100_000)
        setattr(builtins, RAN, self._ran)

    def rewrite(self, file: str, tree: ast.Module) -> ast.Module:
        """The tree with a mark before each statement."""
        for node in ast.walk(tree):
            for name in ("body", "orelse", "finalbody"):
                body = getattr(node, name, None)
                if isinstance(body, list):
                    setattr(node, name, [part for statement in body for part in self._marked(file, statement)])
        return tree

    def _marked(self, file: str, statement: ast.stmt) -> list[ast.stmt]:
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if docstring or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            return [statement]
        mark = ast.parse(f"{RAN}[{len(self.known)}] = 1").body[0]
        self.known.append(places(file)[statement.lineno])
        for node in ast.walk(mark):
            ast.copy_location(node, statement)
        return [mark, statement]

    def taken(self) -> list[int]:
        """The numbers of the statements that ran since the last call."""
        found = [number for number in range(len(self.known)) if self._ran[number]]
        self._ran[:] = bytes(len(self._ran))
        return found
