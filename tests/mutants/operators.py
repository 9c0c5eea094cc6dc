"""Every one-operator change of a source file, as changed syntax trees."""

import ast
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CORE = Path(__file__).resolve().parents[2] / "libs/core/bailiff_core"
PACKAGES = ("victims", "placement", "quota", "queue", "protections", "actions", "lifecycle", "fold")
COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SKIPPED = ("annotation", "returns", "bases", "decorator_list", "type_params")
"""Fields whose changes no behaviour depends on, or that fail at import."""
UNSEEN = re.compile(r"strict=|Rule\(|[A-Z_]*CACHE_SIZE = ")
"""Code of which nobody sees a small change: zips of equal lengths, positions of protections, sizes of caches."""


@dataclass(frozen=True)
class Mutant:
    """One change. `scope`: the outermost function with the changed code, None for code that an import runs."""

    file: str
    line: int  # of the changed expression or statement
    statement: int  # line of the innermost statement around it
    scope: str | None
    function: str
    source: str  # text of the line, without indentation
    before: str
    after: str
    original: ast.Module
    node: ast.AST
    changed: ast.AST

    def key(self) -> tuple[str, str, str, str]:
        """What names it in judged.yaml, whatever its line number."""
        return self.file, self.function, self.source, f"{self.before} → {self.after}"

    def tree(self) -> ast.Module:
        """The file with the change."""
        return _replaced(self.original, self.node, self.changed)

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})  {self.before} → {self.after}"


@cache
def mutants_of(package: str) -> tuple[Mutant, ...]:
    """All changes of a package, in the order of its files and lines."""
    return tuple(mutant for path in sorted((CORE / package).rglob("*.py")) for mutant in mutants_in(path))


def mutants_in(path: Path) -> Iterator[Mutant]:
    """All changes of one file."""
    source = path.read_text()
    lines, tree = source.splitlines(), ast.parse(source)
    seen: dict[tuple[int, str, str], list[ast.AST]] = {}
    for node, statement, names, scope in _walk(tree, tree, [], None):
        for changed in _changes(node, in_function=scope is not None):
            before, after = (ast.unparse(each) if isinstance(each, ast.expr) else _head(each) for each in (node, changed))
            same = seen.setdefault((node.lineno, before, after), [])
            if node in same:
                continue
            same.append(node)
            if len(same) > 1:
                after += f" (no. {len(same)} of the line)"
            text, function = lines[node.lineno - 1].strip(), ".".join(names) or "module"
            file = path.relative_to(CORE).as_posix()
            yield Mutant(file, node.lineno, statement.lineno, scope, function, text, before, after, tree, node, changed)


def _head(node: ast.AST) -> str:
    """A statement in one line."""
    return "removed" if isinstance(node, ast.Pass) else ast.unparse(node).partition("\n")[0]


def _walk(
    node: ast.AST, statement: ast.AST, names: list[str], scope: str | None
) -> Iterator[tuple[ast.AST, ast.AST, list[str], str | None]]:
    """Nodes with their innermost statement, the names of the functions around them, and the outermost of these."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if name in SKIPPED or not isinstance(child, ast.AST) or isinstance(child, (ast.Assert, ast.JoinedStr, ast.Import)):
                continue
            if isinstance(child, (ast.keyword, ast.Call, ast.Assign)) and UNSEEN.match(ast.unparse(child)):
                continue
            inner = child if isinstance(child, ast.stmt) else statement
            within, outer = names, scope
            if isinstance(node, FUNCTIONS) and name == "body":
                outer = scope or ".".join(names)
            if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
                within = [*names, child.name]
            if isinstance(child, (ast.expr, ast.stmt)):
                yield child, inner, within, outer
            yield from _walk(child, inner, within, outer)


def _replaced(tree: ast.Module, node: ast.AST, changed: ast.AST) -> ast.Module:
    """The tree with the one node replaced; all others are shared."""

    def rebuilt(at: ast.AST) -> ast.AST:
        if at is node:
            return ast.fix_missing_locations(ast.copy_location(changed, node))
        if not any(within is node for within in ast.walk(at)):
            return at
        fields = {}
        for name, value in ast.iter_fields(at):
            if isinstance(value, list):
                fields[name] = [rebuilt(item) if isinstance(item, ast.AST) else item for item in value]
            else:
                fields[name] = rebuilt(value) if isinstance(value, ast.AST) else value
        return ast.copy_location(type(at)(**fields), at)

    found = rebuilt(tree)
    assert isinstance(found, ast.Module)
    return found


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """A copy with other fields."""
    return type(node)(**{**dict(ast.iter_fields(node)), **fields})


def _changes(node: ast.AST, *, in_function: bool) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=ops):
            for at, op in enumerate(ops):
                yield _with(node, ops=[*ops[:at], COMPARISONS[type(op)](), *ops[at + 1 :]])
        case ast.BoolOp(op=op, values=values):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
            for at in range(len(values)):
                rest = values[:at] + values[at + 1 :]
                yield _with(node, values=rest) if len(rest) > 1 else deepcopy(rest[0])
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield deepcopy(operand)
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in ARITHMETIC and (in_function or not isinstance(op, ast.BitOr)):
            yield _with(node, op=ARITHMETIC[type(op)]())
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
            if value > 0:
                yield ast.Constant(value - 1)
        case ast.If(test=test) | ast.IfExp(test=test) if not (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"):
            yield _with(node, test=ast.Constant(False))
            yield _with(node, test=ast.Constant(True))
        case ast.comprehension():
            pass
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            for at, part in enumerate(node.generators):
                for number in range(len(part.ifs)):
                    without = _with(part, ifs=part.ifs[:number] + part.ifs[number + 1 :])
                    yield _with(node, generators=[*node.generators[:at], without, *node.generators[at + 1 :]])
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            if name in CALLS:
                yield _with(node, func=ast.Name(CALLS[name], ast.Load()))
            if name == "sorted" and all(keyword.arg != "reverse" for keyword in keywords):
                yield _with(node, keywords=[*keywords, ast.keyword("reverse", ast.Constant(True))])
            if name == "reversed":
                yield ast.Call(ast.Name("list", ast.Load()), args, keywords)
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()
        case ast.Raise() | ast.Delete():
            yield ast.Pass()
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()) if in_function:
            yield ast.Pass()
    if isinstance(node, ast.AugAssign):
        yield ast.Pass()
