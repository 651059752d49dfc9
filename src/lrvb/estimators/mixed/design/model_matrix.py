"""Columns of a design from text, by `formulaic`: the same on new rows, unseen categories refused.

What is a sum of columns as they are is read without it.
"""

from __future__ import annotations

import keyword
import re
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pandas as pd

from ....data.tables import LARGEST, SMALLEST, shortened
from ....errors import InvalidData, InvalidModel, LrvbError
from ..text.allowed import FUNCTIONS, TRANSFORMS, check_allowed
from ..text.scanning import formula_error, words
from ..text.translation import INSTEAD
from .columns import Table, close_to, is_text
from .plain_columns import PlainSum, are_numbers, plain_sum
from .slips import refuse_dates, refuse_slips
from .transforms import remembering

KEYWORDS = {"True", "False", "None", "and", "or", "not", "in", "is", "if", "else", "lambda"}
LARGEST_MATRIX = 4e9  # bytes of a dense matrix of fixed effects


class ColumnBlock(NamedTuple):
    """Columns made from one text: their names, and the specification that makes them again.

    `seen` holds, for every column that enters as a category, the categories there were; columns
    `left_out` are made and not kept.
    """

    text: str
    names: tuple[str, ...]
    spec: Any
    seen: dict[str, pd.Index]
    left_out: tuple[int, ...] = ()

    def without_intercept(self) -> ColumnBlock:
        """The same but for the intercept, with categories coded as beside one."""
        if "Intercept" not in self.names:
            return self
        at = self.names.index("Intercept")
        names = tuple(name for name in self.names if name != "Intercept")
        return self._replace(names=names, left_out=(at,))

    def references(self) -> list[str]:
        """Names that levels without a column of their own would have, such as c[a]."""
        return [
            name
            for expression, (_, state) in self.spec.encoder_state.items()
            for level in state.get("categories", ())
            if (name := f"{expression}[{level}]") not in self.names
        ]

    def apply(self, table: Table) -> np.ndarray:
        """The same columns for other rows, (n, q): categories and transforms as they were."""
        for name, known in self.seen.items():
            values = pd.Index(np.asarray(table.frame[name]))
            unseen = known.get_indexer(values) < 0
            if unseen.any():
                row = int(np.argmax(unseen))
                raise table.error(
                    name,
                    row,
                    values[row],
                    "is a category that was not in the data of the fit, so that its effect is unknown",
                    "Use one of " + ", ".join(f"'{level}'" for level in known[:10]),
                )
        for name in _columns_of(self.text, table):
            if name not in self.seen and is_text(table.frame[name]) and self._was_number(name):
                value = table.frame[name].iloc[0]
                raise table.error(
                    name, 0, value, "is text, but the fit had numbers there", "Convert the column"
                )
        values = np.delete(_evaluate(self.text, self.spec, table)[0], self.left_out, axis=1)
        for name, column in zip(self.names, values.T, strict=True):
            check_finite(name, column, table)
        return values

    def _was_number(self, name: str) -> bool:
        """Whether a column is an effect by itself, and had numbers in the fit."""
        return any(
            str(factor) == name and kind.value == "numerical"
            for factor, (kind, _) in self.spec.encoder_state.items()
        )


def named_columns(
    text: str, known: list[str], within: str = "", own: Iterable[str] = ()
) -> list[str]:
    """The columns that a text of the formula names; a function that is not known is an error.

    Names that are no columns are kept for the caller to complain about: only those that belong
    to formulas themselves are left out.
    """
    functions = {*TRANSFORMS, *FUNCTIONS, *own}
    found: list[str] = []
    for word in words(text):
        name = word.name if word.name in known else word.name.split(".")[0]
        ours = name in functions or name in KEYWORDS or name in ("np", "contr")
        if word.called and word.name == name:
            if not ours:
                nearest = f"{close_to(name, sorted(functions))} NumPy's are written np.sin(x)."
                remedy = INSTEAD.get(name, nearest)
                unknown = f"The function '{name}' is not known in a formula"
                mark = "." if name in INSTEAD else ";"
                raise formula_error(text, word.at, f"{unknown}{mark} {remedy}", within)
        elif not word.keyword and (name in known or not ours):
            found.append(name)
    return list(dict.fromkeys(found))


def check_syntax(text: str, within: str = "") -> None:
    """Whether `formulaic` can read a text; its complaint in one sentence when it cannot."""
    if plain_sum(text) is not None:
        return
    import formulaic
    from formulaic.errors import FormulaicError

    for dot in re.finditer(r"(?<![\w.)])\.(?![\w.])", text):
        raise formula_error(
            text, dot.start(), "A column was expected: '.' stands for no columns in a bar.", within
        )
    try:
        formula = formulaic.Formula(text)
    except (FormulaicError, SyntaxError) as error:
        at = str(error).split("\n")[-1].find("⧛")
        sentence = f"This cannot be read: {_first_sentence(error)}"
        for word in words(text):
            if word.name not in KEYWORDS - {"lambda"} and keyword.iskeyword(word.name):
                at = word.at
                sentence = (
                    f"'{word.name}' is a word of Python's, which can be a column but not computed with; "
                    "give the column another name."
                )
                break
        raise formula_error(text, max(at, 0), sentence, within) from None
    if not isinstance(formula, formulaic.SimpleFormula):
        raise InvalidModel(f"'{text}' has several parts; one sum of terms was expected.")


def build_block(text: str, table: Table) -> tuple[np.ndarray, ColumnBlock]:
    """The columns of a text, (n, q), and the block that makes them again."""
    formula = _read(text, table)
    named = named_columns(text, list(table.frame.columns), own=table.functions)
    _check_kinds(text, named, table)
    values, spec = _evaluate(text, formula, table)
    seen = {}
    for expression, (kind, _) in spec.encoder_state.items():
        if kind.value == "categorical":
            for name in _columns_of(str(expression), table):
                seen[name] = pd.Index(pd.unique(np.asarray(table.frame[name])))
    names = _names(spec)
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InvalidModel(f"The formula's '{text}' makes more than one column '{repeated[0]}'.")
    for name, column in zip(names, values.T, strict=True):
        check_finite(name, column, table)
        check_size(name, column, table)
    return values, ColumnBlock(text, tuple(names), spec, seen)


def _columns_of(text: str, table: Table) -> list[str]:
    return named_columns(text, list(table.frame.columns), own=table.functions)


def _read(text: str, table: Table) -> Any:
    """What formulaic makes of a text, every piece of Python in it known to be harmless."""
    plain = plain_sum(text)
    if plain is not None and are_numbers(plain.columns, table):
        return plain
    import formulaic

    formula = formulaic.Formula(text)
    for term in formula:
        for factor in term.factors:
            expression, method = factor.expr, factor.eval_method.value
            if method == "python" or (method == "lookup" and expression not in table.frame):
                check_allowed(expression, table.frame.columns, table.functions)
    return formula


class Number(NamedTuple):
    """One number per row: an arithmetic expression such as 'y', 'log(y)' or '10'.

    spec makes it again on other rows; it is None for a constant.
    """

    text: str
    spec: Any

    def apply(self, table: Table) -> np.ndarray:
        """The number of every row, (n,)."""
        if self.spec is None:
            return np.full(table.n, _constant(self.text))
        return _one_number(self.text, self.spec, table)[0]


def build_number(text: str, table: Table) -> tuple[np.ndarray, Number]:
    """The value of an expression in every row, (n,), and what makes it again on other rows."""
    if not _columns_of(text, table):
        number = Number(text, None)
        return number.apply(table), number
    name = text.strip().strip("`")
    alone = keyword.iskeyword(name) and name in table.frame
    plain = plain_sum(text) == PlainSum(True, (name,)) and are_numbers((name,), table)
    recipe = f"0 + {name}" if plain else f"0 + `{name}`" if alone else f"0 + {{{text}}}"
    check_syntax(recipe)
    values, spec = _one_number(text, _read(recipe, table), table)
    return values, Number(text, spec)


def _one_number(text: str, recipe: Any, table: Table) -> tuple[np.ndarray, Any]:
    """One finite number per row, and the specification that makes it."""
    for name in _columns_of(text, table):
        if is_text(table.frame[name]):
            raise _needs_numbers(text, name, table)
    values, spec = _evaluate(text, recipe, table)
    if values.shape[1] != 1:
        raise InvalidModel(
            f"The formula's '{text}' gives {values.shape[1]} numbers for a row; give one."
        )
    check_finite(text, values[:, 0], table)
    return values[:, 0], spec


def check_finite(name: str, column: np.ndarray, table: Table) -> None:
    """A column of numbers that can be computed with."""
    bad = ~(np.abs(column) <= LARGEST)
    if bad.any():
        row = int(np.argmax(bad))
        problem = "is too large to be squared" if np.isfinite(column[row]) else "is not finite"
        problem += _made_of(name, row, table)
        raise table.error(name, row, column[row], problem, "Correct the value or drop the row")


def _made_of(text: str, row: int, table: Table) -> str:
    """The values that an expression of the formula has its own from, as the end of a sentence."""
    named = [
        column
        for column in map(str, table.frame.columns)
        if column != text and re.search(rf"(?<![\w.]){re.escape(column)}(?![\w.])", text)
    ]
    values = [f"{column} is {shortened(table.frame[column].tolist()[row])}" for column in named]
    return f", where {' and '.join(values)}" if values else ""


def check_size(name: str, column: np.ndarray, table: Table) -> None:
    """A column whose squares are not all zero, unless it is."""
    row = int(np.argmax(np.abs(column)))
    if 0 < abs(column[row]) < SMALLEST:
        raise table.error(
            name, row, column[row], "is too small to be squared", "Rescale the column"
        )


def _constant(text: str) -> float:
    """The number a text is, such as the trials of prop(y, 10)."""
    try:
        return float(text)
    except ValueError:
        raise InvalidModel(
            f"The formula's '{text}' names no column; give one or a number."
        ) from None


def _evaluate(text: str, recipe: Any, table: Table) -> tuple[np.ndarray, Any]:
    """What formulaic makes of a formula or a specification, and the specification."""
    if isinstance(recipe, PlainSum):
        return recipe.values(table), recipe
    from formulaic.errors import DataMismatchWarning, FactorEvaluationError, FormulaicError

    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # what a transform warns of shows as a value that is not finite, which is refused by name
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", DataMismatchWarning)
            matrix = recipe.get_model_matrix(
                table.frame,
                output="numpy",
                na_action="ignore",
                context={**FUNCTIONS, **remembering(), **table.functions},
            )
    except DataMismatchWarning as error:
        unknown = str(error).partition("{")[2].partition("}")[0]
        raise InvalidData(
            f"The formula's '{text}' meets categories that are not among its levels: {unknown}. Name "
            "all levels or none."
        ) from None
    except (FactorEvaluationError, FormulaicError, TypeError, ValueError, AttributeError) as error:
        factor = re.match(r"Unable to evaluate factor `(.*?)`\. \[", str(error), re.DOTALL)
        part = factor.group(1) if factor else ""
        for name in _columns_of(part, table):
            if is_text(table.frame[name]):
                raise _needs_numbers(part, name, table) from error
        if isinstance(error.__cause__, LrvbError):  # a function of ours has said it
            raise type(error.__cause__)(
                f"The formula's '{part or text}': {error.__cause__}"
            ) from error
        dotted = [name for name in table.frame.columns if "." in name and name in text]
        hint = f" Write the column with a dot in backticks, `{dotted[0]}`." if dotted else ""
        raise InvalidModel(
            f"The formula's '{text}' cannot be computed: {_first_sentence(error)}{hint}"
        ) from error
    values = np.asarray(matrix, dtype=np.float64)
    return values.reshape(table.n, -1), matrix.model_spec


def _names(spec: Any) -> list[str]:
    """Names of the columns, a category's without formulaic's mark: c[T.b] is c[b]."""
    names = [str(name) for name in spec.column_names]
    levels = [
        str(level)
        for _, state in spec.encoder_state.values()
        for level in state.get("categories", ())
    ]
    if any(level.startswith("T.") for level in levels):
        return names
    return [name.replace("[T.", "[") for name in names]


def _check_kinds(text: str, named: list[str], table: Table) -> None:
    """Dates have no place among the effects, nor has a category with a value for every row."""
    for name in named:
        column = table.frame[name]
        refuse_dates(name, table)
        as_categories = re.search(rf"\b(C|factor)\(\s*`?{re.escape(name)}`?\s*[,)]", text)
        if not (is_text(column) or as_categories):
            continue
        if not as_categories:
            refuse_slips(name, table, f", or write C({name}) if categories are meant")
        levels = column.nunique()
        if 2 < levels == table.n or levels * table.n * 8.0 > LARGEST_MATRIX:
            first = int(table.positions[0])
            refuse_labels(name, levels, table.n, column.iloc[0], f" in {table.place(0)}", first)


def refuse_labels(
    name: str, levels: int, n: int, value: object, place: str = "", row: int | None = None
) -> NoReturn:
    """A category of too many labels for n rows, one of which is `value`, at a place."""
    raise InvalidData(
        f"Column '{name}' holds {levels} different labels, such as '{value}'{place}, in {n} rows: too many "
        "for a fixed effect. If numbers are meant, convert the column; if groups are meant, write "
        f"(1|{name}).",
        column=name,
        row=row,
        value=value,
    )


def _needs_numbers(text: str, name: str, table: Table) -> InvalidData:
    """The error for text where a number is needed."""
    value = table.frame[name].iloc[0]
    return InvalidData(
        f"The formula's '{text}' needs numbers, but column '{name}' holds text, such as '{value}' in "
        f"{table.place(0)}. Convert the column to numbers.",
        column=name,
        row=int(table.positions[0]),
        value=value,
    )


def _first_sentence(error: Exception) -> str:
    """The first line of a message, without colours and marks."""
    line = re.sub(r"\x1b?\[[0-9;]*m|[⧛⧚]", "", str(error).strip().split("\n")[0])
    return line if line.endswith((".", "]", "!")) else line + "."
