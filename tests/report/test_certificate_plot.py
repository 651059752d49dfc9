"""The figure of a certificate shows its numbers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from cases import CASES

pytest.importorskip("matplotlib").use("Agg")


def test_both_answers_are_drawn():
    case = next(case for case in CASES if case.name == "GammaPoisson")
    certificate = lrvb.summarize(case.response()).certify(256)
    table = certificate.summary(0.9)
    ax = lrvb.plot.certificate(certificate, prob=0.9)
    ours, theirs = (np.array([s[:, 0] for s in c.get_segments()]) for c in ax.collections[:2])
    assert_allclose(ours[:, 1] * table["sd"] + table["mean"], table["upper"])
    assert_allclose(theirs.mean(axis=1), -table["shift"], atol=1e-12)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(table.index)
    assert {text.get_text() for text in ax.texts} == set(table["verdict"])
    assert len(lrvb.plot.certificate(certificate, "rate").get_yticklabels()) == 1
    with pytest.raises(lrvb.InvalidModel, match="no quantity 'tau'"):
        lrvb.plot.certificate(certificate, ["tau"])
