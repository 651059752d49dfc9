"""A posterior in a file: everything comes back, without pickle, and never half of it."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import lrvb
from cases import CASES
from lrvb.posterior import storage
from lrvb.posterior.certification import ASK

BY_NAME = {str(case): case for case in CASES}
COUNTS = BY_NAME["NormalPoisson-tilted"]


@cache
def posterior_of(name: str) -> lrvb.Posterior:
    return lrvb.summarize(BY_NAME[name].response())


@pytest.fixture
def counts() -> lrvb.Posterior:
    return posterior_of(str(COUNTS))


def returned(posterior: lrvb.Posterior, path: Path) -> lrvb.Posterior:
    """The posterior after a round trip, with every table compared."""
    assert posterior.save(path) == path
    again = lrvb.load(path)
    assert again.names == posterior.names
    for method in ("lrvb", "mfvb"):
        pd.testing.assert_frame_equal(again.cov(method=method), posterior.cov(method=method))
        pd.testing.assert_frame_equal(again.corr(method=method), posterior.corr(method=method))
        pd.testing.assert_series_equal(again.sd(method=method), posterior.sd(method=method))
    pd.testing.assert_frame_equal(again.summary(0.9), posterior.summary(0.9))
    assert repr(again) == repr(posterior).replace(
        ASK, "a file holds no density to check it against"
    )
    for key in ("elbo", "converged", "n_iter"):
        assert getattr(again, key) == getattr(posterior, key)
    trace = posterior.convergence.trace
    np.testing.assert_array_equal(again.convergence.trace, trace)
    return again


@pytest.mark.parametrize("name", ["NormalPoisson-tilted", "RandomSlope", "NormalMixture"])
def test_everything_comes_back(name: str, tmp_path: Path) -> None:
    posterior = posterior_of(name)
    again = returned(posterior, tmp_path / "posterior.lrvb")
    for block, values in posterior.draws(4, seed=7).items():
        np.testing.assert_array_equal(values, again.draws(4, seed=7)[block])
    first = next(iter(posterior.response.alpha.blocks))

    def f(m: Any) -> Any:
        return m[first].x.sum() ** 2

    assert again.of(f) == posterior.of(f)
    block = next(iter(posterior.fit.problem.local.blocks))
    assert again.local(block).identical(posterior.local(block))
    some = again.local(block, rows=[3, 0])
    np.testing.assert_allclose(some["sd"], posterior.local(block, rows=[3, 0])["sd"], rtol=1e-9)
    np.testing.assert_array_equal(again.estimate.eta, posterior.fit.eta)
    assert again.estimate.alpha.blocks == posterior.fit.alpha.blocks
    assert again.estimate.supports == posterior.estimate.supports


def test_twice_through_a_file(counts: lrvb.Posterior, tmp_path: Path) -> None:
    once = returned(counts, tmp_path / "once")
    twice = returned(once, tmp_path / "twice")
    assert twice.local("z").identical(counts.local("z"))


def test_no_pickle(counts: lrvb.Posterior, tmp_path: Path) -> None:
    counts.save(tmp_path / "posterior")
    with np.load(tmp_path / "posterior", allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    assert all(array.dtype != object for array in arrays.values())
    assert json.loads(str(arrays["header"]))["converged"] is True


@pytest.mark.parametrize(
    "labels",
    [
        pd.Index([f"r{i}" for i in range(40)]),
        pd.date_range("2020", periods=40),
        pd.MultiIndex.from_product([range(8), list("abcde")]),
        pd.Index([i if i % 2 else f"a{i}" for i in range(40)], dtype=object),
        pd.Index([0] * 40),
    ],
    ids=["text", "dates", "pairs", "mixed", "repeated"],
)
def test_row_labels_come_back(labels: pd.Index, tmp_path: Path) -> None:
    posterior = lrvb.infer(COUNTS.model, pd.DataFrame(dict(COUNTS.data), index=labels))
    local = posterior.local("z")
    assert list(local["row"].values) == list(np.asarray(labels))
    assert returned(posterior, tmp_path / "posterior").local("z").identical(local)


def test_local_variables_may_be_left_out(counts: lrvb.Posterior, tmp_path: Path) -> None:
    counts.save(tmp_path / "posterior", local=False)
    again = lrvb.load(str(tmp_path / "posterior"))
    pd.testing.assert_series_equal(again.sd(), counts.sd())
    with pytest.raises(lrvb.InvalidModel, match="holds no local quantity 'z'; it holds: none"):
        again.local("z")


def test_a_loaded_posterior_is_a_start(counts: lrvb.Posterior, tmp_path: Path) -> None:
    again = returned(counts, tmp_path / "posterior")
    refit = lrvb.infer(COUNTS.model, COUNTS.data, init=again)
    assert refit.n_iter <= 2
    np.testing.assert_allclose(refit.mean(), counts.mean(), rtol=1e-8)


@pytest.mark.parametrize("what", ["fit", "response", "refined"])
def test_a_file_holds_no_fit(what: str, counts: lrvb.Posterior, tmp_path: Path) -> None:
    again = returned(counts, tmp_path / "posterior")
    with pytest.raises(
        lrvb.InvalidModel, match=r"was read from a file, which holds no .* or fit again with init="
    ):
        getattr(again, what)() if what == "refined" else getattr(again, what)


# ---- files that are none -------------------------------------------------------------------


def damaged(path: Path, kind: str) -> None:
    """Write something to `path` that is not a posterior."""
    good = path.read_bytes()
    middle = len(good) // 2
    if kind == "foreign":
        np.savez(path, a=np.ones(3))
        path.with_name(path.name + ".npz").replace(path)
    elif kind == "array":
        with open(path, "wb") as file:
            np.save(file, np.ones(3))
    elif kind in HEADERS:
        with np.load(path) as archive:
            arrays = dict(archive)
        with open(path, "wb") as file:
            np.savez(file, **{**arrays, "header": np.array(HEADERS[kind])})
    else:
        path.write_bytes(
            {
                "empty": b"",
                "text": b"x,y\n1,2\n",
                "cut": good[:middle],
                "overwritten": good[:middle] + bytes(20) + good[middle + 20 :],
            }[kind]
        )


HEADERS = {
    "other header": "[1, 2]",
    "no json": "{",
    "no blocks": '{"format": 1}',
    "other sizes": json.dumps(
        {
            "format": 1,
            "blocks": {
                "a": {"module": "lrvb.families.gamma", "class": "Gamma", "arguments": {}},
            },
        }
    ),
}


@pytest.mark.parametrize(
    "kind", ["empty", "text", "cut", "overwritten", "foreign", "array", *HEADERS]
)
def test_files_that_are_none(kind: str, counts: lrvb.Posterior, tmp_path: Path) -> None:
    path = counts.save(tmp_path / "posterior", local=False)
    damaged(path, kind)
    with pytest.raises(lrvb.InvalidData, match="not a posterior saved by lrvb, or it is damaged"):
        lrvb.load(path)


def test_files_that_are_not_there(counts: lrvb.Posterior, tmp_path: Path) -> None:
    with pytest.raises(lrvb.InvalidData, match=r"There is no file .*missing.*passed to save"):
        lrvb.load(tmp_path / "missing")
    with pytest.raises(
        lrvb.InvalidData, match="is a folder; give the path that was passed to save"
    ):
        lrvb.load(tmp_path)
    with pytest.raises(lrvb.InvalidData, match=r"cannot be written to .*folder that exists"):
        counts.save(tmp_path / "missing" / "posterior")
    with pytest.raises(lrvb.InvalidData, match="cannot be written to"):
        counts.save(tmp_path)


def test_a_newer_format(counts: lrvb.Posterior, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(storage, "FORMAT", 99)
    counts.save(tmp_path / "posterior")
    monkeypatch.undo()
    with pytest.raises(lrvb.InvalidData, match="written by a newer lrvb; upgrade"):
        lrvb.load(tmp_path / "posterior")


def test_a_failing_write_leaves_what_was_there(
    counts: lrvb.Posterior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = counts.save(tmp_path / "posterior", local=False)
    before = path.read_bytes()

    def fails(file: Any, **arrays: Any) -> None:
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", fails)
    for target in (path, tmp_path / "new"):
        with pytest.raises(lrvb.InvalidData, match="No space left on device"):
            counts.save(target)
    assert [file.name for file in tmp_path.iterdir()] == ["posterior"]
    assert path.read_bytes() == before


# ---- families of the user's ----------------------------------------------------------------

MODULE = '''
import lrvb

class Precision(lrvb.Gamma):
    """A family in a module of the user's."""

class Forgetful(lrvb.Wishart):
    """describe() leaves out an argument."""
    def __init__(self, dim=2, *, batch=()):
        super().__init__(dim, batch=batch)
    def describe(self):
        return {"dim": 2}
'''


def prior_of(family: lrvb.Family) -> lrvb.Posterior:
    class Prior(lrvb.Model):
        global_blocks = {"tau": family}

        def global_term(self, m):
            if "log_x" in family.Stats._fields:
                return (2 * m.tau.log_x - m.tau.x).sum()
            return (2 * m.tau.logdet_x - jnp.trace(m.tau.x, axis1=-2, axis2=-1)).sum()

    return lrvb.infer(Prior())


def test_a_family_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "users_families.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import users_families

    posterior = prior_of(users_families.Precision(batch=(2,)))
    posterior.save(tmp_path / "posterior")
    again = lrvb.load(tmp_path / "posterior", families=[users_families.Precision])
    assert again.estimate.alpha.blocks == posterior.response.alpha.blocks
    pd.testing.assert_frame_equal(again.summary(), posterior.summary())
    with pytest.raises(
        lrvb.InvalidModel, match=r"Block 'tau' cannot be saved: Forgetful\.describe"
    ):
        prior_of(users_families.Forgetful(batch=(2,))).save(tmp_path / "other")
    assert not (tmp_path / "other").exists()
    with pytest.raises(lrvb.InvalidModel, match=r"classes derived from lrvb.Family"):
        lrvb.load(tmp_path / "posterior", families=["Precision"])


def test_nothing_that_a_file_names_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module beside a crafted file does not run."""
    (tmp_path / "beside.py").write_text("raise SystemExit('the file has run code')")
    monkeypatch.syspath_prepend(tmp_path)
    path = prior_of(lrvb.Gamma()).save(tmp_path / "posterior")
    rewritten(path, lambda header, arrays: header["blocks"]["tau"].update(module="beside"))
    with pytest.raises(
        lrvb.InvalidData, match=r"beside\.Gamma of block 'tau' .*families=\[Gamma\]"
    ):
        lrvb.load(path)
    assert "beside" not in sys.modules


def test_a_family_inside_a_function_is_passed(tmp_path: Path) -> None:
    class Inside(lrvb.Gamma):
        pass

    path = prior_of(Inside()).save(tmp_path / "posterior")
    assert lrvb.load(path, families=[Inside]).names == ["tau", "log(tau)"]


# ---- content that cannot be ------------------------------------------------------------------


def rewritten(path: Path, change: Any) -> None:
    """The file with its header and arrays changed in place."""
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays.pop("header")))
    change(header, arrays)
    with open(path, "wb") as file:
        np.savez_compressed(file, **arrays, header=np.array(json.dumps(header)))


def _set(name: str, value: Any) -> Any:
    return lambda header, arrays: arrays[name].__setitem__(..., value)


CONTENT = {
    "m is not a number": (_set("m", np.nan), "m holds values that are not finite"),
    "V is infinite": (_set("V", np.inf), "V holds"),
    "variances are negative": (_set("Sigma", -1.0), "Sigma is no covariance"),
    "eta is outside": (_set("eta", 3.0), "'beta' lie outside their domain"),
    "m is short": (lambda h, a: a.update(m=a["m"][:-1]), "m has"),
    "m is whole": (lambda h, a: a.update(m=a["m"].astype(int)), "m has shape"),
    "labels are missing": (lambda h, a: h["labels"].pop(), "labels and supports"),
    "sds are negative": (_set("local/z/sd", -1.0), "negative"),
    "rows are not numbers": (_set("local/z/mean", np.nan), "not finite"),
    "a block is enormous": (
        lambda h, a: h["blocks"].update(b={"shape": [10**6, 10**6]}),
        "labels and supports",
    ),
    "a matrix is enormous": (lambda h, a: a.update(trace=np.zeros(2**25)), "declares"),
}


@pytest.mark.parametrize("what", CONTENT)
def test_content_that_cannot_be(what: str, counts: lrvb.Posterior, tmp_path: Path) -> None:
    change, words = CONTENT[what]
    path = counts.save(tmp_path / "posterior")
    rewritten(path, change)
    with pytest.raises(lrvb.InvalidData, match=rf"damaged \(.*{words}"):
        lrvb.load(path)
