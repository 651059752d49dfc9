"""Double precision and the compilation cache are ours alone: the user's JAX is left as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import lrvb
from lrvb.errors import CacheRefused
from lrvb.numerics import cache
from lrvb.numerics.program import Program

SCRIPT = """
import json, sys, tempfile
import jax, jax.numpy as jnp, numpy as np

double = sys.argv[1] == "double"
if double:
    jax.config.update("jax_enable_x64", True)
expected = jnp.float64 if double else jnp.float32


@jax.jit
def users(x):
    return jnp.sin(x) * 2 + jnp.ones(3)


def unchanged():
    assert jnp.ones(3).dtype == expected
    assert jnp.asarray(np.ones(3)).dtype == expected
    assert jax.config.jax_enable_x64 is double
    assert jax.config.jax_compilation_cache_dir is None
    assert users(jnp.ones(3)).dtype == expected
    assert users._cache_size() == 1


unchanged()
import lrvb
unchanged()

rng = np.random.default_rng(0)
x = rng.normal(size=40)
data = {"x": x, "y": rng.poisson(np.exp(x))}
fit = lrvb.fit(lrvb.models.NormalPoisson(), data)
unchanged()
curvature = lrvb.linearize(fit)
unchanged()
posterior = lrvb.summarize(lrvb.respond(curvature))
unchanged()
mean = np.asarray(fit.moments.tau.x)
assert mean.dtype == np.float64
variance = posterior.of(lambda m: jnp.log(m.tau.x))
local = posterior.local("z", rows=[0, 1])
draws = posterior.draws(3, seed=1)
with tempfile.TemporaryDirectory() as folder:
    again = lrvb.load(posterior.save(folder + "/posterior"))
unchanged()
assert again.of(lambda m: jnp.log(m.tau.x)) == variance
print(json.dumps({
    "cov": posterior.cov().to_numpy().tolist(),
    "of": variance,
    "sd": local["sd"].values.tolist(),
    "draws": draws["tau"].tolist(),
}))
"""


def run(mode: str) -> dict[str, np.ndarray]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, mode], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    return {k: np.array(v) for k, v in json.loads(done.stdout.splitlines()[-1]).items()}


def test_the_users_precision_is_left_alone() -> None:
    """A float32 user stays float32 and still gets sixteen digits; so does a float64 user."""
    single, double = run("single"), run("double")
    for name, value in single.items():
        assert value.dtype == np.float64
        np.testing.assert_allclose(value, double[name], rtol=1e-12, err_msg=name)
    tau = single["cov"][1, 1]
    assert np.float64(np.float32(tau)) != tau


def test_this_process_is_left_alone() -> None:
    before = dict(jax.config.values)
    lrvb.infer(lrvb.models.NormalPoisson(), {"x": [0.1, -0.3, 1.0], "y": [1, 0, 3]})
    assert dict(jax.config.values) == before


# ---- the cache of compiled programs --------------------------------------------------------


def doubled(x):
    return 2 * x + 1


def compute() -> np.ndarray:
    """A program that this process has not compiled yet."""
    return np.asarray(Program(doubled)(np.arange(3.0)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a home that would show any other."""
    monkeypatch.setenv("LRVB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "elsewhere"))
    return tmp_path / "cache"


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(jax.stages.Lowered, "compile", fails)


def test_the_cache_is_where_it_was_asked_to_be(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    np.testing.assert_array_equal(compute(), [1.0, 3.0, 5.0])
    (file,) = folder.glob("*.xla")
    assert {f.name for f in folder.iterdir()} == {file.name, "key"}
    assert not (folder.parent / "elsewhere").exists()
    request.getfixturevalue("no_compiler")
    np.testing.assert_array_equal(compute(), [1.0, 3.0, 5.0])


def test_the_default_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LRVB_CACHE_DIR")
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.cache_folder() == folder.parent / "elsewhere" / "lrvb"


@pytest.mark.parametrize("word", ["off", "OFF", "none", "0"])
def test_the_cache_can_be_switched_off(
    word: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LRVB_CACHE_DIR", word)
    np.testing.assert_array_equal(compute(), [1.0, 3.0, 5.0])
    assert list(folder.parent.iterdir()) == []
    assert not Path(word).exists()


@pytest.mark.parametrize("damage", ["empty", "garbage", "cut", "one byte"])
def test_a_damaged_file_is_survived(damage: str, folder: Path) -> None:
    compute()
    (file,) = folder.glob("*.xla")
    good = file.read_bytes()
    middle = len(good) // 2
    file.write_bytes(
        {
            "empty": b"",
            "garbage": b"garbage" * 100,
            "cut": good[:middle],
            "one byte": good[:middle] + bytes([good[middle] ^ 255]) + good[middle + 1 :],
        }[damage]
    )
    np.testing.assert_array_equal(compute(), [1.0, 3.0, 5.0])
    opened(folder).read(file.name)  # written anew


def test_a_folder_that_cannot_be_written_is_survived(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("LRVB_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(CacheRefused, match="cannot be used"):
        np.testing.assert_array_equal(compute(), [1.0, 3.0, 5.0])


def opened(folder: Path) -> cache.Cache:
    found = cache.open_cache()
    assert found is not None
    assert found.folder == folder
    return found


def test_old_files_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MAX_FILES", 2)
    here = opened(folder)
    for i in range(4):
        here.write(f"{i}.xla", b"content")
        os.utime(folder / f"{i}.xla", (i, i))
    left = folder / "killed.tmp"
    left.write_bytes(b"")
    os.utime(left, (1, 1))
    here.write("last.xla", b"content")
    assert len(list(folder.glob("*.xla"))) == 2
    assert not left.exists()
    assert here.read("last.xla") == b"content"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="modes are POSIX's")
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o755])
def test_a_folder_open_to_others_is_not_used(mode: int, folder: Path) -> None:
    """One warning, no file written, none read, and the mode left as the user has it."""
    folder.mkdir()
    folder.chmod(mode)
    with pytest.warns(CacheRefused, match="open to others"):
        compute()
    compute()  # warned of once
    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="modes are POSIX's")
def test_the_folder_and_its_key_are_the_users_alone(folder: Path) -> None:
    compute()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "key").stat().st_mode & 0o777 == 0o600


def test_a_planted_file_does_not_run(folder: Path) -> None:
    """What this user's key has not signed, or has signed under another name, is never unpickled."""
    here = opened(folder)
    here.write("one.xla", b"content")
    (folder / "two.xla").write_bytes((folder / "one.xla").read_bytes())
    other = cache.Cache(folder, bytes(32))
    other.write("three.xla", b"content")
    for name in ("two.xla", "three.xla"):
        with pytest.raises(ValueError, match="was not written"):
            here.read(name)


def test_several_devices_are_one(tmp_path):
    """With host devices as NumPyro makes them, in a fresh process and again from its cache."""
    code = (
        "import numpy as np, lrvb; "
        "print(lrvb.infer(lrvb.models.NormalPoisson(), {'x': np.ones(9), 'y': np.arange(9)}, "
        "certify=False).mean('beta')['beta'])"
    )
    flags = "--xla_force_host_platform_device_count=3"
    environment = {**os.environ, "XLA_FLAGS": flags, "LRVB_CACHE_DIR": str(tmp_path / "cache")}
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert found[0] == found[1] != ""
