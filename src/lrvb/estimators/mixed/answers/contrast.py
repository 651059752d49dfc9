"""Contrasts: sums of named quantities such as "2*x1 - 0.5*c[b]", and any formula of them on draws."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from ....errors import InvalidModel
from ....posterior.intervals import check_probability, normal_ends
from ....posterior.posterior import Posterior
from ....posterior.table import table
from ..design.columns import close_to
from .expression import Expression, calls

NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(?![\w.])")
WORD = re.compile(r"[^\s+\-*/()^\[]+(\([^()]*\))?(\[[^\[\]]*\])*|[()^]")


_STEP = 1e-3  # sds: the error of a central difference is its square

Draws = Callable[[], Mapping[str, np.ndarray]]


def contrast_table(
    contrasts: Any,
    posterior: Posterior,
    prob: float,
    references: Iterable[str] = (),
    draws: Draws | None = None,
) -> pd.DataFrame:
    """`mean, sd, mfvb_sd, z, lower, upper`, one row for each contrast; z = mean/sd.

    Of a sum c'θ, Var = c'Σ̂c, and c'Vc by mean field. Any other formula is evaluated on `draws`; by mean field
    c is its gradient at the means. `references` are levels without a coefficient.
    """
    check_probability("prob", prob)
    asked = _asked(contrasts)
    known, parts = posterior.names, []
    for name, text in asked.items():
        try:
            parts.append(_of_sum(name, weights(text, known, references), posterior, prob))
        except InvalidModel:
            formula = _formula(text, known)
            if formula is None or draws is None:
                raise
            parts.append(_of_formula(name, formula, draws(), posterior, prob))
    return pd.concat(parts)


def _formula(text: str, known: list[str]) -> Expression | None:
    """The formula; None for a plain sum or none at all, of which the reader of sums says what is wrong.

    Unless it calls a function, which no sum does.
    """
    try:
        found = Expression(text, known)
    except InvalidModel:
        if calls(text):
            raise
        return None
    return None if found.is_linear else found


def _of_formula(
    name: str,
    formula: Expression,
    draws: Mapping[str, np.ndarray],
    posterior: Posterior,
    prob: float,
) -> pd.DataFrame:
    """Moments and quantiles of draws (n,), and the mean-field sd by the delta method."""
    values = formula.evaluate(draws)
    mean, sd = np.array([values.mean()]), np.array([values.std()])
    lower, upper = np.quantile(values, [0.5 - prob / 2, 0.5 + prob / 2])
    g, V = _gradient(formula, posterior), posterior.cov(method="mfvb").to_numpy()
    mfvb_sd = np.sqrt(np.array([g @ V @ g]))
    return table([name], mean=mean, sd=sd, mfvb_sd=mfvb_sd, z=mean / sd, ends=([lower], [upper]))


def _gradient(formula: Expression, posterior: Posterior) -> np.ndarray:
    """∂f/∂θ (a,) at the posterior means, by central differences of a thousandth of an sd."""
    at, h = posterior.mean().to_numpy(), _STEP * posterior.sd().to_numpy()
    points = at + np.concatenate([np.diag(h), -np.diag(h)])
    values = formula.evaluate(dict(zip(posterior.names, points.T, strict=True)))
    up, down = np.split(values, 2)
    return np.divide(up - down, 2 * h, out=np.zeros(len(h)), where=h > 0)


def _of_sum(name: str, c: np.ndarray, posterior: Posterior, prob: float) -> pd.DataFrame:
    known, C = posterior.names, c[None]
    mean = C @ posterior.mean().to_numpy()
    sd, mfvb_sd = (
        np.sqrt(np.einsum("ka,ab,kb->k", C, posterior.cov(method=method).to_numpy(), C))
        for method in ("lrvb", "mfvb")
    )
    ends = normal_ends(mean, sd, prob)
    if posterior.weighted is not None:
        columns = np.zeros((len(C), len(posterior.estimate.m)))
        columns[:, [posterior.estimate.index[name] for name in known]] = C
        ends = posterior.weighted.combined(columns, prob)
    return table([name], mean=mean, sd=sd, mfvb_sd=mfvb_sd, z=mean / sd, ends=ends)


def _asked(contrasts: Any) -> dict[str, str]:
    """Each contrast by its name: its own text, or the key of a mapping."""
    if isinstance(contrasts, str):
        asked: dict[Any, Any] = {contrasts: contrasts}
    elif isinstance(contrasts, Mapping):
        asked = dict(contrasts)
    elif isinstance(contrasts, Iterable):
        asked = {text: text for text in contrasts}
    else:
        asked = {contrasts: contrasts}
    for text in asked.values():
        if not isinstance(text, str):
            raise InvalidModel(
                f"The contrast {text!r} must be text, such as 'x1 - x2'; give one, a list of them, or "
                "a mapping of names to them."
            )
    if not asked:
        raise InvalidModel("There is no contrast; give one, such as 'x1 - x2'.")
    return asked


def weights(text: str, known: list[str], references: Iterable[str] = ()) -> np.ndarray:
    """The number before every known name in a contrast, zero for those it does not have."""
    reader = _Reader(text, known, set(references))
    return reader.read()


class _Reader:
    """Reads ± number * name ± … from left to right; the longest known name at a place wins."""

    def __init__(self, text: str, known: list[str], references: set[str]):
        self.text, self.at = text, 0
        self.references = references
        self.known = known
        self.longest = sorted(known, key=len, reverse=True)

    def read(self) -> np.ndarray:
        result = np.zeros(len(self.known))
        self._spaces()
        if self.at == len(self.text):
            self._fail("A contrast is empty; write one such as 'x1 - x2'.")
        sign = self._sign(first=True)
        while True:
            start = self.at
            factor, name = self._product()
            if name is None:
                self._fail(
                    "A number without a name is a constant, which has no uncertainty; leave it out.",
                    start,
                )
            result[self.known.index(name)] += sign * factor
            if self.at == len(self.text):
                break
            sign = self._sign(first=False)
        if not result.any():
            self._fail("Everything in the contrast cancels; nothing is left to estimate.", 0)
        return result

    def _sign(self, first: bool) -> float:
        sign = 1.0
        if not first and self.text[self.at] not in "+-":
            self._fail("'+' or '-' was expected between the terms of a contrast.")
        while self.at < len(self.text) and self.text[self.at] in "+-":
            sign = -sign if self.text[self.at] == "-" else sign
            self.at += 1
            self._spaces()
        return sign

    def _product(self) -> tuple[float, str | None]:
        """Numbers and at most one name, joined by '*' or divided by numbers."""
        factor, name = 1.0, None
        divide = False
        while True:
            start = self.at
            found = self._name()
            if found is not None:
                if name is not None or divide:
                    self._fail(
                        "A contrast is linear: a name is multiplied or divided by numbers only. For "
                        "other functions use posterior_.of or posterior_.draws.",
                        start,
                    )
                name = found
            else:
                number = self._number()
                if divide and number == 0:
                    self._fail("A contrast cannot be divided by zero.", start)
                factor = factor / number if divide else factor * number
            self._spaces()
            if self.text.startswith("**", self.at) or self._next() not in ("*", "/"):
                return factor, name
            divide = self._next() == "/"
            self.at += 1
            self._spaces()

    def _name(self) -> str | None:
        for name in self.longest:
            end = self.at + len(name)
            if self.text.startswith(name, self.at) and not re.match(r"[\w.\[:(]", self.text[end:]):
                self.at = end
                return name
        return None

    def _number(self) -> float:
        match = NUMBER.match(self.text, self.at)
        if match:
            number = float(match.group())
            if not isfinite(number):
                self._fail("A number in a contrast is beyond the range of numbers.")
            self.at = match.end()
            return number
        if self.at == len(self.text):
            self._fail("The contrast ends where a name was expected.")
        word = WORD.match(self.text, self.at)
        if word is None or word.group() in ("(", ")", "^"):
            self._fail(
                "A name or a number was expected; write a contrast as a plain sum, such as "
                "'2*x1 - 0.5*x2'."
            )
        if word.group() in self.references:
            self._fail(
                f"'{word.group()}' is the level with which the others of its factor are compared, so "
                "that it has no coefficient; the others are differences from it: leave it out."
            )
        self._fail(f"There is no quantity '{word.group()}'; {close_to(word.group(), self.known)}")

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _spaces(self) -> None:
        while self._next().isspace():
            self.at += 1

    def _fail(self, message: str, at: int | None = None) -> NoReturn:
        at = self.at if at is None else at
        raise InvalidModel(f"{message}\n    {self.text}\n    {' ' * at}^", at=at)
