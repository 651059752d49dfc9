"""Partitioned data: the same answer as in memory, wherever the parts are."""

from __future__ import annotations

import dask.array as da
import distributed
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from cases import two_normals
from lrvb.collapsed.partitions import Chunks
from lrvb.models import NormalPoisson, RandomSlope
from lrvb.studies.reference import simulate

N = 300


@pytest.fixture(scope="module")
def data():
    made = simulate.normal_poisson(np.random.default_rng(3), n=N, beta=1.0, sd=0.6)
    return {"x": made["x"], "y": made["y"]}


@pytest.fixture(scope="module")
def whole(data):
    return lrvb.infer(NormalPoisson(), data)


def same(posterior, whole):
    assert_allclose(posterior.mean(), whole.mean(), rtol=1e-8)
    assert_allclose(posterior.sd(), whole.sd(), rtol=1e-8)
    assert posterior.fit.converged
    assert_allclose(posterior.elbo, whole.elbo, rtol=1e-12)


def test_dask_columns(data, whole):
    """Uneven chunks, a chunk of its own for each column, and a column still in memory."""
    x = da.from_array(data["x"], chunks=((100, 1, 199),))
    posterior = lrvb.infer(NormalPoisson(), {"x": x, "y": data["y"]})
    same(posterior, whole)
    local, expected = posterior.local("z"), whole.local("z")
    for variable in ("mean", "sd", "mfvb_sd", "cov"):
        assert_allclose(local[variable], expected[variable], rtol=1e-6, atol=1e-10)
    some = posterior.local("z", rows=[5, 100, 250])
    assert_allclose(some["sd"], expected["sd"].values[[5, 100, 250]], rtol=1e-7)


def test_chunks_from_a_restartable_iterable(data, whole):
    """A list of mappings, an empty one among them."""
    cut = [{k: v[a:b] for k, v in data.items()} for a, b in ((0, 80), (80, 80), (80, 300))]
    same(lrvb.infer(NormalPoisson(), Chunks(cut)), whole)


def test_an_iterator_cannot_be_restarted(data):
    with pytest.raises(lrvb.InvalidData, match="only once"):
        Chunks(iter([data]))


def test_bad_values_are_named_in_any_part(data):
    y = data["y"].astype(float)
    y[250] = -3.0
    columns = {"x": da.from_array(data["x"], chunks=100), "y": da.from_array(y, chunks=100)}
    with pytest.raises(lrvb.InvalidData, match=r"'y'.*-3\.0"):
        lrvb.infer(NormalPoisson(), columns)
    with pytest.raises(lrvb.InvalidData, match="rows"):
        lrvb.infer(NormalPoisson(), {"x": columns["x"], "y": da.from_array(y[:-1], chunks=100)})


def test_a_model_that_gathers_rows_says_so():
    made = simulate.random_slope(np.random.default_rng(4), groups=4, per_group=3)
    columns = {k: da.from_array(np.asarray(made[k]), chunks=6) for k in ("r", "y", "group")}
    columns["x"] = da.from_array(made["x"], chunks=(6, 2))
    with pytest.raises(lrvb.InvalidModel, match="compute"):
        lrvb.infer(RandomSlope(), columns)


def test_distributed_cluster_survives_a_lost_worker():
    """Gram sums on the workers of a LocalCluster; one is killed in the middle of the fit."""
    rng = np.random.default_rng(5)
    component = rng.integers(2, size=2000)
    x = rng.normal(size=(2000, 2)) + np.array([[0.0, 0.0], [2.0, 1.5]])[component]
    start = {"mu": {"loc": np.array([[0.0, 0.0], [2.0, 1.5]]), "cov": np.eye(2)}}
    whole = lrvb.infer(two_normals(), {"x": x}, init=start)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        columns = {"x": da.from_array(x, chunks=(250, 2))}
        with pytest.warns(lrvb.NotConverged):
            fit = lrvb.fit(two_normals(), columns, init=start, max_iter=3)
        victim = next(iter(cluster.workers.values()))
        client.run(
            _die, workers=[victim.worker_address], nanny=False, on_error="ignore", wait=False
        )
        again = lrvb.infer(two_normals(), columns, init=fit)
        assert_allclose(again.mean(), whole.mean(), rtol=1e-8, atol=1e-8)
        assert_allclose(again.sd(), whole.sd(), rtol=1e-8)
        there = lrvb.GaussianMixture(2, random_state=0).fit(columns["x"]).posterior_
    here = lrvb.GaussianMixture(2, random_state=0).fit(x).posterior_
    assert_allclose(there.mean() / here.sd(), here.mean() / here.sd(), atol=1e-8)
    assert_allclose(there.sd(), here.sd(), rtol=1e-8)


def _die():
    import os

    os._exit(1)


def test_mixture_of_partitioned_rows():
    """Dask, chunks, a memory map and weights: the same posterior as from an array in memory."""
    made = simulate.gaussian_mixture(np.random.default_rng(6), 3000)
    X, w = made["X"], np.random.default_rng(7).integers(0, 3, size=3000).astype(float)
    whole = lrvb.GaussianMixture(2, random_state=0).fit(X)
    weighted = lrvb.GaussianMixture(2, random_state=0).fit(X, sample_weight=w)
    lazy = da.from_array(X, chunks=(700, 1))
    for parts, weights, expected in (
        (lazy, None, whole),
        (lrvb.Chunks([X[:10], X[10:10], X[10:2000], X[2000:]]), None, whole),
        (lazy, da.from_array(w, chunks=450), weighted),
    ):
        mixture = lrvb.GaussianMixture(2, random_state=0).fit(parts, sample_weight=weights)
        scale = expected.posterior_.sd()
        gap = (mixture.posterior_.mean() - expected.posterior_.mean()) / scale
        assert gap.abs().max() < 1e-6
        assert_allclose(mixture.posterior_.sd(), scale, rtol=1e-6)
        assert_allclose(mixture.lower_bound_, expected.lower_bound_, rtol=1e-9)
    z = mixture.posterior_.local("z", rows=[0, 2999])
    assert_allclose(z["mean"], weighted.posterior_.local("z", rows=[0, 2999])["mean"], rtol=1e-6)


def test_mixture_of_a_memory_map(tmp_path):
    """A float32 memory map is read in slices, never as a whole."""
    X = simulate.gaussian_mixture(np.random.default_rng(8), 2000)["X"].astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    mixture = lrvb.GaussianMixture(2, random_state=0).fit(mapped)
    whole = lrvb.GaussianMixture(2, random_state=0).fit(X.astype(float))
    assert_allclose(mixture.posterior_.sd(), whole.posterior_.sd(), rtol=1e-6)


def test_bad_parts_are_named():
    X = simulate.gaussian_mixture(np.random.default_rng(9), 300)["X"]
    X[250, 1] = np.nan
    with pytest.raises(lrvb.InvalidData, match="Part 2 of X, row 50, column 1"):
        lrvb.GaussianMixture(2).fit(da.from_array(X, chunks=(100, 2)))
    with pytest.raises(lrvb.InvalidData, match="no rows"):
        lrvb.GaussianMixture(2).fit(lrvb.Chunks([np.zeros((0, 2))]))
    with pytest.raises(lrvb.InvalidData, match="columns"):
        lrvb.GaussianMixture(2).fit(lrvb.Chunks([np.ones((5, 2)), np.ones((5, 3))]))


def test_rows_are_left_out_where_they_are():
    """Influence, robust sds and loo of rows in parts are those of rows in memory, steps too."""
    from posterior.what_if_cases import Line, line

    data = line(600)
    data.iloc[[3, 251, 260, 599], 1] += [6.0, -5.0, 7.0, 6.0]
    columns = {name: data[name].to_numpy() for name in ("x", "y")}
    here = lrvb.infer(Line(), columns, certify=False)
    lazy = {name: da.from_array(column, chunks=(250,)) for name, column in columns.items()}
    there = lrvb.infer(Line(), lazy, certify=False)
    at = here._at(["a", "b"])
    for codes in (None, np.arange(600) % 30):
        ours, theirs = (p._what_if().influence(at, codes, refits=0) for p in (there, here))
        assert_allclose(ours.values, theirs.values, rtol=1e-4, atol=1e-9)
        assert ours.stepped[3]
        assert ours.stepped.all() == (codes is not None)  # 30 levels are few, 600 rows are not
    assert "by a step of the second order, 5" in repr(there.influence(["a", "b"]))
    for by in (None, np.arange(600) % 30):
        ours, theirs = (p.sd(["a", "b"], method="robust", by=by) for p in (there, here))
        assert_allclose(ours, theirs, rtol=1e-5)
    elpd = [p.loo(draws=64).attrs["elpd_loo"] for p in (there, here)]
    assert_allclose(*elpd, rtol=1e-6)
    with pytest.raises(lrvb.InvalidModel, match="in parts elsewhere"):
        there._what_if().left_out(np.arange(3))
