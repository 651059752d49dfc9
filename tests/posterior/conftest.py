"""Two posteriors that most tests of answers ask."""

from __future__ import annotations

import pytest
from posterior_cases import COUNTS, MIXTURE, posterior_of

import lrvb


@pytest.fixture
def counts() -> lrvb.Posterior:
    return posterior_of(str(COUNTS))


@pytest.fixture
def mixture() -> lrvb.Posterior:
    return posterior_of(str(MIXTURE))
