"""MNIST 0 against 1: the published accuracy with the pixels read as the study read them, and right."""

from __future__ import annotations

import numpy as np
import pytest

import lrvb
from lrvb.experiments import digits


@pytest.mark.parametrize(
    ("reading", "low", "high", "spread"),
    [("int8", 0.915, 0.925, 0.95), ("uint8", 0.943, 0.953, 0.985)],
)
def test_accuracy_of_both_readings(reading, low, high, spread):
    """Published: 0.920 (signed bytes). Mean-field sds of Λ are low on average, and never high."""
    data = digits.load(reading)
    assert data.X.shape == (12665, 25)
    assert data.X_test.shape == (2115, 25)
    mixture = digits.fit(data)
    assert mixture.converged_
    assert low <= digits.accuracy(mixture, data) <= high
    posterior = mixture.posterior_
    ratio = posterior.sd("Lambda", method="mfvb") / posterior.sd("Lambda")
    assert ratio.mean() < spread
    assert ratio.max() < 1 + 1e-9
    assert np.isfinite(posterior.sd()).all()


def test_unknown_reading():
    with pytest.raises(lrvb.InvalidModel, match="reading"):
        digits.load("bits")
