"""What a formula may compute: arithmetic of columns, and functions of a closed list.

A formula is text, often from a file or a command line, and its parts are evaluated as Python. So
each is read first: names of columns, numbers, operators and calls of known functions, and nothing
else. Functions work row by row or remember what they need (center, bs), so that new rows are
treated as those of the fit.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ....errors import InvalidModel
from .scanning import formula_error

# Beyond formulaic's own (log, exp, center, scale, poly, bs, …).
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sqrt": np.sqrt,
    "abs": np.abs,
    "log1p": np.log1p,
    "expm1": np.expm1,
}
TRANSFORMS = frozenset(
    {"log", "log10", "log2", "exp", "exp10", "exp2", "bs", "cc", "cr", "cs", "center", "lag"}
    | {"poly", "scale", "standardize", "C", "I", "Q", "hashed", "factor", "ns"}
    | {"Treatment", "Poly", "Sum", "Helmert", "Diff"}
)
CONTRASTS = frozenset(["treatment", "sum", "helmert", "diff", "poly", "SAS", "custom"])
CONSTANTS = frozenset({"pi", "e", "euler_gamma", "inf", "nan"})
BY_ROW = frozenset({"where", "clip", "round"})
_NODES = (
    ast.Expression,
    ast.Constant,
    ast.Name,
    ast.Load,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.Call,
    ast.keyword,
    ast.Attribute,
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
)
_WORDS = {
    ast.Lambda: "a lambda",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.Subscript: "an index in square brackets",
    ast.IfExp: "an 'if'",
    ast.JoinedStr: "an f-string",
    ast.NamedExpr: "an assignment",
    ast.Starred: "a '*' before an argument",
}
REMEDY = (
    "Compute it as a column of the data first, or in Python pass a function of your own, as in "
    'MixedModel(..., functions={"f": f}).'
)


def own_functions(functions: Any) -> dict[str, Callable[..., Any]]:
    """The user's own functions by name; each must give something."""
    if functions is None:
        return {}
    if not isinstance(functions, Mapping):
        raise InvalidModel(
            f"functions={functions!r} must map names to functions, such as {{'f': f}}."
        )
    for name, function in functions.items():
        if not (isinstance(name, str) and name.isidentifier() and callable(function)):
            raise InvalidModel(
                f"functions has {name!r}: {function!r}; it must map names to functions, such as "
                "{'f': f}."
            )
        if name in TRANSFORMS or name in FUNCTIONS or name in ("np", "contr", "s"):
            raise InvalidModel(
                f"functions has '{name}', which a formula knows already; choose another name."
            )
    return {name: _giving(name, function) for name, function in functions.items()}


def _giving(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def given(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        if value is None:
            raise InvalidModel(
                f"The function '{name}' of the formula returned None; it must return one number or "
                "label for every row."
            )
        return value

    return given


def check_allowed(
    expression: str, columns: Iterable[str], functions: Iterable[str] = (), within: str = ""
) -> None:
    """Refuse whatever a formula's piece of Python holds beyond columns and functions of the list."""
    known = set(columns)
    quoted: dict[str, str] = {}

    def plain(match: re.Match[str]) -> str:
        name = f"_quoted_{len(quoted)}"
        quoted[name] = match.group()[1:-1]
        return name

    source = re.sub(r"`[^`]*`", plain, expression)
    try:
        tree = ast.parse(source.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        raise _refused(expression, "cannot be read as arithmetic", within) from None
    names = known | set(quoted) | {"True", "False", "None"}
    _check(tree.body, expression, names, set(functions), within)


def _check(node: ast.AST, text: str, names: set[str], own: set[str], within: str) -> None:
    if not isinstance(node, _NODES):
        what = _WORDS.get(type(node), f"a {type(node).__name__}")
        raise _refused(text, f"holds {what}", within)
    if isinstance(node, ast.Call):
        _check_call(node, text, own, within)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            _check(argument, text, names, own, within)
        return
    if isinstance(node, ast.Attribute):
        if _path(node) not in {f"np.{name}" for name in CONSTANTS}:
            raise _refused(text, f"asks for '.{node.attr}' of something", within)
        return
    if isinstance(node, ast.Name) and node.id not in names:
        if node.id not in TRANSFORMS:  # a contrast without brackets, as in C(x, Sum)
            raise _refused(text, f"names '{node.id}', which is no column", within)
        return
    for child in ast.iter_child_nodes(node):
        _check(child, text, names, own, within)


def _check_call(node: ast.Call, text: str, own: set[str], within: str) -> None:
    path = _path(node.func)
    root, _, name = (path or "").partition(".")
    known = path is not None and (
        path in TRANSFORMS
        or path in FUNCTIONS
        or path in own
        or (root == "contr" and name in CONTRASTS)
        or (root == "np" and name in BY_ROW)
        or (root == "np" and isinstance(getattr(np, name, None), np.ufunc))
    )
    if not known:
        shown = path or "something that is not a name"
        raise _refused(text, f"calls '{shown}', which is not among a formula's functions", within)
    if any(keyword.arg in (None, "out") for keyword in node.keywords):
        raise _refused(text, "gives an argument that could change a column", within)
    if root == "np" and name and name not in BY_ROW and len(node.args) > getattr(np, name).nin:
        raise _refused(text, f"gives np.{name} more arguments than it takes", within)


def _path(node: ast.AST) -> str | None:
    """`f` or `np.f`; None of anything deeper."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return None


def _refused(text: str, what: str, within: str) -> InvalidModel:
    return formula_error(text, 0, f"The formula's '{text}' {what}. {REMEDY}", within)
