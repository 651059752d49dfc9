"""The tree of tests is that of the source, and the laws run on every shipped thing."""

from __future__ import annotations

from pathlib import Path

import pytest

import lrvb
from cases import CASES
from laws.family_cases import CASES as FAMILY_CASES

TESTS = Path(__file__).resolve().parent
SOURCE = TESTS.parent / "src" / "lrvb"
OF_THEIR_OWN = {"laws", "paper"}  # laws over every case, and the paper's claims

FOLDERS = sorted(
    path.relative_to(TESTS) for path in TESTS.rglob("*") if path.is_dir() and any(path.glob("*.py"))
)


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_a_folder_of_tests_is_one_of_the_source(folder):
    """What tests/x/y checks is src/lrvb/x/y."""
    assert folder.name in OF_THEIR_OWN or (SOURCE / folder).is_dir()


def test_every_shipped_model_has_a_case():
    """A model of `lrvb.models` meets the laws; `Model` itself states nothing."""
    shipped = {name for name in lrvb.models.__all__ if name != "Model"}
    assert shipped <= {type(case.model).__name__ for case in CASES}


def test_every_shipped_family_has_a_case():
    """A family of `lrvb.families` meets the laws; `Family` itself states nothing."""
    shipped = {name for name in lrvb.families.__all__ if name != "Family"}
    assert shipped <= {type(case.stated).__name__ for case in FAMILY_CASES}
