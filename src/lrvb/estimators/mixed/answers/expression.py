"""Formulas of named quantities, such as "exp(x)" or "sd[1|g]**2", read safely and evaluated on draws."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from ....errors import InvalidModel
from ..design.columns import close_to

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "log": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "atanh": np.arctanh,
    "expit": expit,
    "logit": logit,
    "plogis": expit,
    "qlogis": logit,
    "pnorm": ndtr,
    "qnorm": ndtri,
}
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
LONGEST = 2000  # letters of a formula
AFTER = re.compile(r"[\w.\[:]")  # what a name does not end before


def calls(text: str) -> bool:
    """Whether a function is written in it."""
    return re.search(rf"\b({'|'.join(FUNCTIONS)})\s*\(", text) is not None


class Expression:
    """A formula in names of `known`: the longest known name at a place is that name."""

    def __init__(self, text: str, known: list[str]):
        self.text, self.known = text, known
        if len(text) > LONGEST:
            raise InvalidModel(
                f"A contrast of {len(text):,} letters is too long; write a shorter one."
            )
        masked, self.names = _masked(text, known)
        try:
            self.tree = ast.parse(masked, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._fail("is no formula of names, numbers, + - * / ** and functions")

    @property
    def is_linear(self) -> bool:
        """Whether it is written as a plain sum: no function, power, or product of names."""
        return not any(self._bent(node) for node in ast.walk(self.tree))

    def evaluate(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Its value at every draw, (n,)."""
        with np.errstate(all="ignore"):
            found = np.asarray(self._value(self.tree, values), dtype=float)
        if found.ndim == 0:
            self._fail("is a number without a name, which has no uncertainty")
        if not np.isfinite(found).all():
            share = float(np.mean(~np.isfinite(found)))
            self._fail(f"is not a finite number in {share:.1%} of the draws")
        return found

    def _bent(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            return True
        if not isinstance(node, ast.BinOp) or isinstance(node.op, ast.Add | ast.Sub):
            return False
        left, right = (any(_names(part)) for part in (node.left, node.right))
        sums = any(isinstance(part, ast.BinOp) for part in (node.left, node.right))
        return (
            isinstance(node.op, ast.Pow) or (left and right) or sums or (right and _divides(node))
        )

    def _value(self, node: ast.AST, values: Mapping[str, np.ndarray]) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return float(node.value)
        if isinstance(node, ast.Name):
            return self._named(node.id, values)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            inner = self._value(node.operand, values)
            return -inner if isinstance(node.op, ast.USub) else inner
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            parts = self._value(node.left, values), self._value(node.right, values)
            return OPERATORS[type(node.op)](*parts)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            made = FUNCTIONS.get(node.func.id)
            if made is None:
                self._fail(
                    f"calls '{node.func.id}'; the functions of a contrast are {', '.join(FUNCTIONS)}"
                )
            if len(node.args) != 1 or node.keywords:
                self._fail(f"gives '{node.func.id}' other than one argument")
            return made(self._value(node.args[0], values))
        self._fail("has something other than names, numbers, + - * / ** and functions")

    def _named(self, found: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
        name = self.names.get(found)
        if name is None:
            raise InvalidModel(
                f"There is no quantity '{found}'; {close_to(found, self.known)}\n    {self.text}"
            )
        if name not in values:
            self._fail(f"names '{name}', of which this fit has no draws")
        return values[name]

    def _fail(self, problem: str) -> NoReturn:
        raise InvalidModel(f"The contrast '{self.text}' {problem}.")


def _masked(text: str, known: list[str]) -> tuple[str, dict[str, str]]:
    """The text with a plain word for every known name, and the names by these words; ^ is **."""
    longest = sorted(known, key=len, reverse=True)
    words: dict[str, str] = {}
    result, at = [], 0
    while at < len(text):
        before = text[at - 1] if at else " "
        found = None
        if not re.match(r"[\w.]", before):
            found = next(
                (n for n in longest if text.startswith(n, at) and _ends(text, at, n)), None
            )
        if found is None:
            result.append("**" if text[at] == "^" else text[at])
            at += 1
            continue
        word = f"_q{known.index(found)}_"
        words[word] = found
        result.append(word)
        at += len(found)
    return "".join(result).strip(), words


def _ends(text: str, at: int, name: str) -> bool:
    """Whether a name ends where it would: not within a longer word, nor before a call's bracket."""
    rest = text[at + len(name) :]
    return not AFTER.match(rest) and not (rest.startswith("(") and name.isidentifier())


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (part for part in ast.walk(node) if isinstance(part, ast.Name))


def _divides(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.Div)
