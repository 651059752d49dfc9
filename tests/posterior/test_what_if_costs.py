"""What the questions of what if cost: passes over the rows, and memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
from numpy.testing import assert_allclose
from what_if_cases import Line, line

import lrvb


def test_rows_are_visited_once(monkeypatch):
    """Influence on all quantities and robust sds are one pass over the rows each, whatever is asked."""
    answer = lrvb.infer(Line(), line(3000))
    seen, visit = [], lrvb.engine.sensitivity.chunks

    def counted(problem, length, rows=None):
        seen.append(problem.rows.n if rows is None else len(rows))
        return visit(problem, length, rows)

    monkeypatch.setattr(lrvb.engine.sensitivity, "chunks", counted)
    table = answer.influence(scaled=True)
    large = int((table.abs().max(axis=1) >= 0.1).sum())
    assert sum(seen) <= 3000 + 3 * (large + 5)  # a row's own curvature where it is large
    seen.clear()
    answer.sd(method="robust")
    assert sum(seen) == 3000


def test_hyperparameters_are_one_pass_over_the_rows(monkeypatch):
    """All of them, means and sds, however many there are and although rows read two of them."""

    class Many(Line):
        def __init__(self):
            super().__init__()
            self.known, self.power = 0.3, 1.0

        def local_term(self, m, z, row):
            return self.power * (super().local_term(m, z, row) - m.tau.x * self.known**2 / 2)

    answer = lrvb.infer(Many(), line(3000))
    seen, visit = [], lrvb.collapsed.turning.chunks

    def counted(problem, length, rows=None):
        seen.append(problem.rows.n)
        return visit(problem, length, rows)

    monkeypatch.setattr(lrvb.collapsed.turning, "chunks", counted)
    monkeypatch.setattr("lrvb.engine.sensitivity.chunks", None)
    table = answer.prior_sensitivity()
    assert set(table["hyperparameter"]) == {"slope_mean", "slope_var", "known", "power"}
    assert seen == [3000]


def test_influence_holds_one_table_and_no_copy_of_it():
    """Beside n × k numbers only columns of n: index, weights, sizes, flags and one that passes."""
    n, names = 100_000, ["a", "b", "tau"]
    answer = lrvb.infer(Line(), line(n).reset_index(drop=True), certify=False)
    answer.influence(names)  # compiles
    tracemalloc.start()
    try:
        table = answer.influence(names, scaled=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert np.isfinite(table.to_numpy()).all()
    assert peak < 8 * n * (len(names) + 5)


def test_many_rows_are_sampled_for_sds_and_not_refitted(monkeypatch):
    """And the table says so; means are exact."""
    answer = lrvb.infer(Line(slope_var=0.05), line(60))
    exact = answer.prior_sensitivity("b")
    monkeypatch.setattr("lrvb.engine.numbers.SAMPLED", 30)
    monkeypatch.setattr("lrvb.engine.numbers.MANY_ROWS", 30)
    monkeypatch.setattr("lrvb.posterior.deletion.MANY", 30)
    again = lrvb.summarize(answer.response)
    table = again.prior_sensitivity("b")
    assert_allclose(table["d_mean"], exact["d_mean"], rtol=1e-12)
    assert "d_sd is by a sample of 30 of the rows." in repr(table)
    assert not again._what_if().influence(np.arange(2)).refitted.any()


def test_rows_that_stand_for_all_know_how_sds_follow(monkeypatch):
    """To 4 % of the sd that a number moves most: 3000 of 12,000 rows, each a quadrature."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=12_000)
    data = {"x": x, "y": rng.poisson(np.exp(x + rng.normal(size=len(x)) / 2))}
    answer = lrvb.infer(lrvb.models.NormalPoisson(), data, certify=False)
    sampled = answer.prior_sensitivity()
    assert "d_sd is by a sample of 3,000 of the rows." in repr(sampled)
    monkeypatch.setattr("lrvb.posterior.sensitivity.standing_rows", lambda fit: None)
    exact = answer.prior_sensitivity()
    found, truth = (
        t.pivot(index="hyperparameter", columns="quantity", values="d_sd") / answer.sd()
        for t in (sampled, exact)
    )
    off = (found - truth).abs().max(axis=1) / truth.abs().max(axis=1)
    assert off.max() < 0.04
