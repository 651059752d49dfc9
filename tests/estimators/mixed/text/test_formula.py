"""A formula taken apart, and the places its typos are shown at."""

from __future__ import annotations

import pytest

from lrvb.errors import InvalidModel
from lrvb.estimators.mixed.text.formula import parse
from lrvb.estimators.mixed.text.scanning import words


def bars(text: str) -> list[tuple[str, str, bool]]:
    return [(bar.lhs, bar.group, bar.correlated) for bar in parse(text).bars]


@pytest.mark.parametrize(
    ("term", "expected"),
    {
        "(1|g)": [("1", "g", True)],
        "(x|g)": [("x", "g", True)],
        "(1 + x | g)": [("1 + x", "g", True)],
        "(x||g)": [("x", "g", False)],
        "( 0 + x || g )": [("0 + x", "g", False)],
        "(1|a:b)": [("1", "a:b", True)],
        "(1|a/b)": [("1", "a", True), ("1", "a:b", True)],
        "(x||a / b)": [("x", "a", False), ("x", "a:b", False)],
        "(1|a/b/c)": [("1", "a", True), ("1", "a:b", True), ("1", "a:b:c", True)],
        "(1|a/b:c)": [("1", "a", True), ("1", "a:b:c", True)],
        "((1|g))": [("1", "g", True)],
        "(1|g) + (1|h)": [("1", "g", True), ("1", "h", True)],
        "(log(x + 1)|`my group`)": [("log(x + 1)", "my group", True)],
        "(C(c, levels=['a|b'])|g)": [("C(c, levels=['a|b'])", "g", True)],
    }.items(),
)
def test_bars_are_lme4s(term: str, expected: list[tuple[str, str, bool]]) -> None:
    assert bars(f"y ~ x + {term}") == expected
    assert parse(f"y ~ x + {term}").fixed == "x"


@pytest.mark.parametrize(
    ("text", "fixed", "offsets"),
    [
        ("y ~ x", "x", ()),
        ("y ~ (1|g)", "1", ()),
        ("y ~ 0 + x*c - x:c + (1|g)", "0 + x*c - x:c", ()),
        ("y ~ -1 + x", "- 1 + x", ()),
        ("y ~ + x", "x", ()),
        ("y ~ (a + b)**2", "(a + b)**2", ()),
        ("y ~ offset(log(e)) + x + offset(u)", "x", ("log(e)", "u")),
        ("y ~ x +\n (1|g)", "x", ()),
    ],
)
def test_fixed_part_and_offsets(text: str, fixed: str, offsets: tuple[str, ...]) -> None:
    formula = parse(text)
    assert formula.fixed == fixed
    assert formula.offsets == offsets


@pytest.mark.parametrize(
    ("left", "response", "trials"),
    [
        ("y", "y", None),
        ("log(y + 1)", "log(y + 1)", None),
        ("prop(s, n)", "s", "n"),
        ("prop (max(s, t), 10)", "max(s, t)", "10"),
        ("`the y`", "`the y`", None),
    ],
)
def test_response(left: str, response: str, trials: str | None) -> None:
    formula = parse(f"{left} ~ 1")
    assert (formula.response, formula.trials) == (response, trials)


# The caret of each typo stands under the ^ of the second line.
TYPOS = """
y + x                | A '~' was expected
     ^
y ~                  | Terms were expected after '~'
   ^
 ~ x                 | A response was expected before '~'
 ^
y ~ x ~ z            | Only one '~'
      ^
(y ~ x)              | outside brackets
   ^
y ~ x +              | A term was expected after this '+'
      ^
y ~ x + + z          | A term was expected after this '+'
      ^
y ~ (1|g             | never closed; a ')' was expected
    ^
y ~ (1|g))           | closes no bracket
         ^
y ~ (x]              | A ')' was expected to close the '('
      ^
y ~ C(x, 'a)         | The quote ' opened here
         ^
y ~ 1|g              | only inside brackets: write (1|g)
     ^
y ~ (1|)             | A group was expected after the bar
       ^
y ~ (|g)             | expected before the bar
     ^
y ~ (1|g|h)          | One bar was expected
        ^
y ~ (1|||g)          | One bar was expected
        ^
y ~ x (1|g)          | A '+' was expected before
      ^
y ~ log(x|g)         | A bar was found inside log(...)
         ^
y ~ x + f(I(x|g))    | A bar was found inside I(...)
             ^
y ~ x*(1|g)          | stand alone
      ^
y ~ (x + (1|g))      | stand alone
         ^
y ~ {1|g}            | A bar was found inside '{'
      ^
y ~ x - (1|g)        | not subtracted
        ^
y ~ (1|g + h)        | ':' (combinations), '/' (nested) or ')'
         ^
y ~ (1|log(g))       | ':' (combinations), '/' (nested) or ')'
          ^
y ~ (1|a/)           | The name of a grouping column was expected
         ^
y ~ (1|2)            | The name of a grouping column was expected
       ^
y ~ (1|a:a)          | already part of this group
         ^
y ~ ar1(t|g)         | There is no ar1(...)
    ^
y ~ x + cs(1|g)      | structures={'t': Q}
        ^
y|g ~ x              | only right of '~'
 ^
y ~ x*offset(z)      | An offset was expected as a term of its own
      ^
y ~ offset()         | A column was expected inside offset
          ^
y ~ (offset(x)|g)    | An offset was expected outside
     ^
prop(a) ~ x          | Two arguments were expected
    ^
prop(a, ) ~ x        | Two arguments were expected
    ^
cbind(a) ~ x         | Two arguments were expected
     ^
"""


LINES = TYPOS.strip("\n").split("\n")


@pytest.mark.parametrize(("line", "caret"), list(zip(LINES[::2], LINES[1::2], strict=True)))
def test_typo(line: str, caret: str) -> None:
    text, sentence = line[:21].rstrip(), line[23:]
    with pytest.raises(InvalidModel) as found:
        parse(text)
    first, shown, under = str(found.value).split("\n")
    assert sentence in first
    assert first.endswith(".")
    assert shown == "    " + text
    assert under.index("^") - 4 == caret.index("^") == found.value.at


@pytest.mark.parametrize("nothing", ["", "  ", None, 3])
def test_no_formula(nothing: object) -> None:
    with pytest.raises(InvalidModel, match="give text such as 'y ~ x"):
        parse(nothing)  # type: ignore[arg-type]


def test_words_are_the_names_in_a_text() -> None:
    """Strings and numbers are no names; keywords and calls are marked."""
    found = words("bs(x, df=4) + `my col`:a.b + C(c, levels=['u', \"v\"]) + 1e3 + (z == w).mean()")
    assert [(word.name, word.called, word.keyword) for word in found] == [
        ("bs", True, False),
        ("x", False, False),
        ("df", False, True),
        ("my col", False, False),
        ("a.b", False, False),
        ("C", True, False),
        ("c", False, False),
        ("levels", False, True),
        ("z", False, False),
        ("w", False, False),
    ]
