"""A formula's text, character by character: brackets, quotes, and the error that points at a place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ....errors import InvalidModel

PAIRS = {"(": ")", "[": "]", "{": "}"}
QUOTES = "'\"`"
WORDS = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


class Scan(NamedTuple):
    """The text on one line, the bracket around each character, and where each bracket closes."""

    text: str
    parent: list[int]  # index of the innermost bracket around a character, −1 outside all brackets
    quoted: list[bool]  # inside '…', "…" or `…`, the quotes included
    closing: dict[int, int]

    def find(self, characters: str, start: int, stop: int) -> Iterator[int]:
        """Places of unquoted characters."""
        for at in range(start, stop):
            if self.text[at] in characters and not self.quoted[at]:
                yield at

    def trimmed(self, start: int, stop: int) -> tuple[int, int]:
        """The same stretch without the spaces at its ends."""
        while start < stop and self.text[start] == " ":
            start += 1
        while stop > start and self.text[stop - 1] == " ":
            stop -= 1
        return start, stop


class Word(NamedTuple):
    """A name in the text; `called` when a bracket follows, `keyword` when a single '=' does."""

    name: str
    at: int
    called: bool
    keyword: bool


def formula_error(text: str, at: int, sentence: str, within: str = "") -> InvalidModel:
    """The sentence, the formula, and a caret under the place.

    When the text is only a part, `within` is the whole formula, in which the place is found again.
    """
    if within:
        at, text = _found_again(text[at:], within), within
    return InvalidModel(f"{sentence}\n    {text}\n    {' ' * at}^", formula=text, at=at)


def _found_again(tail: str, whole: str) -> int:
    """Where the longest possible beginning of a tail stands right of '~', else at the beginning."""
    for stop in range(len(tail), 0, -1):
        if (at := whole.find(tail[:stop], whole.find("~"))) >= 0:
            return at
    return 0


def scan(text: str) -> Scan:
    """Brackets and quotes of a formula; unbalanced ones are errors that show the place."""
    text = re.sub(r"\s", " ", text)
    parent, quoted, closing = [], [], {}
    open_brackets: list[int] = []
    quote = -1
    for at, character in enumerate(text):
        if quote >= 0:
            parent.append(open_brackets[-1] if open_brackets else -1)
            quoted.append(True)
            if character == text[quote]:
                quote = -1
            continue
        if character in PAIRS.values():
            if not open_brackets:
                raise formula_error(text, at, f"The '{character}' closes no bracket; remove it.")
            opened = text[open_brackets[-1]]
            if PAIRS[opened] != character:
                raise formula_error(
                    text,
                    at,
                    f"A '{PAIRS[opened]}' was expected to close the '{opened}' at character "
                    f"{open_brackets[-1] + 1}, but here is a '{character}'.",
                )
            closing[open_brackets.pop()] = at
        if character in QUOTES:
            quote = at
        parent.append(open_brackets[-1] if open_brackets else -1)
        quoted.append(character in QUOTES)
        if character in PAIRS:
            open_brackets.append(at)
    if quote >= 0:
        raise formula_error(text, quote, f"The quote {text[quote]} opened here is never closed.")
    if open_brackets:
        at = open_brackets[-1]
        raise formula_error(
            text,
            at,
            f"The '{text[at]}' opened here is never closed; a '{PAIRS[text[at]]}' was expected.",
        )
    return Scan(text, parent, quoted, closing)


def words(text: str, start: int = 0, stop: int | None = None) -> list[Word]:
    """The names in a stretch of a formula, dotted ones whole, `quoted names` without their quotes."""
    found = []
    at, stop = start, len(text) if stop is None else stop
    while at < stop:
        if text[at] in QUOTES:
            end = text.index(text[at], at + 1)
            if text[at] == "`":
                found.append(Word(text[at + 1 : end], at, called=False, keyword=False))
            at = end + 1
        elif (match := WORDS.match(text, at)) and match.end() <= stop:
            rest = text[match.end() :].lstrip()
            keyword = rest.startswith("=") and not rest.startswith("==")
            found.append(Word(match.group(), at, rest.startswith("("), keyword))
            at = match.end()
        elif text[at].isdigit() or (text[at] == "." and text[at + 1 : at + 2].isidentifier()):
            at += 1  # the digits of 1e3, and a method's name: its letters are no column
            while at < stop and (text[at].isalnum() or text[at] in "._"):
                at += 1
        else:
            at += 1
    return found
