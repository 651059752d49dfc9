"""Smooths, structures and what codes levels, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..text.smooths import SmoothText
from .columns import Table
from .groups import Coder
from .model_matrix import Number, build_number
from .plain_values import coded, decoded, put
from .smooths import Basis, Smooth
from .structures import Structured
from .terms import Columns


def describe_number(number: Number) -> dict[str, Any]:
    """The text of a number, and the state of its transforms."""
    state = None if number.spec is None else coded(number.spec.transform_state)
    return {"text": number.text, "state": state}


def restore_number(found: Mapping[str, Any], table: Table) -> Number:
    """The number, made anew on a table."""
    number = build_number(found["text"], table)[1]
    if found["state"] is not None:
        put(number.spec.transform_state, decoded(found["state"]))
    return number


def describe_coder(coder: Coder) -> dict[str, Any]:
    """Columns, labels and combinations."""
    return {
        "columns": list(coder.columns),
        "labels": [coded(np.asarray(labels)) for labels in coder.labels],
        "combinations": coded(np.asarray(coder.combinations)),
    }


def restore_coder(name: str, found: Mapping[str, Any]) -> Coder:
    """What codes the levels of this name."""
    labels = tuple(pd.Index(decoded(label)) for label in found["labels"])
    combined = pd.Index(decoded(found["combinations"]))
    return Coder(name, tuple(found["columns"]), labels, combined)


def describe_smooth(smooth: Smooth) -> dict[str, Any]:
    """A curve without its coefficients."""
    return {
        "label": smooth.label,
        "text": list(smooth.text),
        "linear": int(smooth.linear),
        "places": coded(smooth.places),
        "number": describe_number(smooth.number),
        "basis": coded(smooth.basis.state),
        "by": None if smooth.coder is None else smooth.coder.name,
        "coder": None if smooth.coder is None else describe_coder(smooth.coder),
        "level": coded(smooth.level),
        "code": int(smooth.code),
    }


def restore_smooth(found: Mapping[str, Any], table: Table) -> Smooth:
    """The curve, for new rows."""
    return Smooth(
        found["label"],
        SmoothText(*found["text"]),
        int(found["linear"]),
        decoded(found["places"]),
        restore_number(found["number"], table),
        Basis.restored(decoded(found["basis"])),
        None if found["coder"] is None else restore_coder(found["by"], found["coder"]),
        decoded(found["level"]),
        int(found["code"]),
    )


def describe_structured(part: Structured, block: int) -> dict[str, Any]:
    """A term with a structure, whose column is of this block."""
    return {
        "label": part.label,
        "group": part.group,
        "places": coded(part.places),
        "levels": coded(np.asarray(part.levels)),
        "Q": coded(part.Q),
        "block": block,
        "chosen": list(map(int, part.source.chosen)),
        "column": part.column,
    }


def restore_structured(found: Mapping[str, Any], blocks: list[Any]) -> Structured:
    """The term, for new rows."""
    return Structured(
        found["label"],
        found["group"],
        decoded(found["places"]),
        pd.Index(decoded(found["levels"])),
        decoded(found["Q"]),
        Columns(blocks[int(found["block"])], tuple(map(int, found["chosen"]))),
        found["column"],
    )
