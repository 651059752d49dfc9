"""What the documentation says is run: every Python block, every example, every skeleton."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SKELETONS = ROOT / "docs" / "skeletons"

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")


def name_of(path: Path) -> str:
    """A test's id: the path inside the repository."""
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[int, str, str]]:
    """The ```python blocks of a page: the line each starts on, the code, and a ```text right below it.

    `python no-run` is left out.
    """
    text = page.read_text(encoding="utf-8")
    found: list[tuple[int, str, str]] = []
    end = -1
    for match in FENCE.finditer(text):
        if match["info"].split() == ["python"]:
            found.append((text.count("\n", 0, match.start("code")), match["code"], ""))
            end = match.end()
        elif match["info"] == "text" and end >= 0 and not text[end : match.start()].strip():
            found[-1] = (*found[-1][:2], match["code"])
    return found


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and examples may write files, and draw without a screen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=name_of)
def test_page_runs(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The blocks of a page run one after another, as a reader would type them, and print what it says."""
    namespace: dict[str, Any] = {"__name__": "__page__"}
    for line, code, said in blocks(page):
        # Blank lines in front make a traceback point at the line of the page.
        exec(compile("\n" * line + code, str(page), "exec"), namespace)
        assert said.strip() in capsys.readouterr().out


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_example_runs(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each example runs from anywhere and says something."""
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file of the repository."""
    targets = [match["target"] for match in LINK.finditer(page.read_text(encoding="utf-8"))]
    files = [t.split("#")[0] for t in targets if not re.match(r"[a-z]+:|#", t)]
    missing = [target for target in files if not (page.parent / target).exists()]
    assert not missing, f"{name_of(page)} links to files that are not there: {missing}"


def test_family_skeleton_keeps_the_laws() -> None:
    """Moments of draws equal ∇A, their covariance equals ∇²A, and the map inverts."""
    from lrvb.families import Family
    from lrvb.numerics.double import double

    family = runpy.run_path(str(SKELETONS / "family.py"))["InverseGamma"]()
    assert isinstance(family, Family)
    with double():
        eta = family.from_params(shape=9.0, rate=4.0)
        m = np.asarray(family.flatten(family.mean(eta)))
        C = np.asarray(family.factor(eta))
        back = np.asarray(family.flatten(family.natural(family.mean(eta)), natural=True))
        draws = family.sample(eta, np.random.default_rng(0), 200_000)
        T = np.asarray(family.flatten(family.Stats(*map(np.asarray, family.statistics(draws)))))
        usual = {name: float(value) for name, value in family.params(eta).items()}
        expected = np.asarray(family.flatten(eta, natural=True))
    assert usual == pytest.approx({"shape": 9.0, "rate": 4.0})
    np.testing.assert_allclose(back, expected, rtol=1e-9)
    V = C @ C.T
    standard_error = np.sqrt(np.diag(V) / len(draws))
    np.testing.assert_array_less(np.abs(T.mean(0) - m), 5 * standard_error)
    np.testing.assert_allclose(np.cov(T.T), V, rtol=0.03)  # 200,000 draws: about 1 % and 3 sd


def test_family_skeleton_serves_a_model() -> None:
    """An inverse gamma variance and a gamma precision are one model: 1/v is τ."""
    import lrvb

    inverse_gamma = runpy.run_path(str(SKELETONS / "family.py"))["InverseGamma"]()

    class WithPrecision(lrvb.Model):
        global_blocks = {"mu": lrvb.Normal(), "tau": lrvb.Gamma()}

        def precision(self, m: Any) -> tuple[Any, Any]:
            return m.tau.x, m.tau.log_x

        def global_term(self, m: Any) -> Any:
            x, log_x = self.precision(m)
            return -m.mu.xx / 20 + 2 * log_x - x  # Gamma(3, 1)

        def local_term(self, m: Any, z: Any, row: Any) -> Any:
            x, log_x = self.precision(m)
            return (log_x - x * (row.y**2 - 2 * row.y * m.mu.x + m.mu.xx)) / 2

    class WithVariance(WithPrecision):
        global_blocks = {"mu": lrvb.Normal(), "v": inverse_gamma}

        def precision(self, m: Any) -> tuple[Any, Any]:
            return m.v.inv_x, -m.v.log_x

        def global_term(self, m: Any) -> Any:
            return super().global_term(m) - 2 * m.v.log_x  # the density of v has 1/v² more

    data = {"y": np.random.default_rng(0).normal(1.0, 0.5, size=30)}
    tau = lrvb.infer(WithPrecision(), data)
    v = lrvb.infer(WithVariance(), data)
    for ours, theirs in (("mu", "mu"), ("1/v", "tau"), ("log(v)", "log(tau)")):
        sign = -1 if ours == "log(v)" else 1
        np.testing.assert_allclose(v.mean(ours).item(), sign * tau.mean(theirs).item(), rtol=1e-7)
        np.testing.assert_allclose(v.sd(ours).item(), tau.sd(theirs).item(), rtol=1e-7)
    assert (v.draws(100, seed=0)["v"] > 0).all()


def test_likelihood_skeleton_recovers_its_truth(capsys: pytest.CaptureFixture[str]) -> None:
    """The skeleton's own run: the truth lies within four posterior sds. Its laws: likelihood_cases.py."""
    names = runpy.run_path(str(SKELETONS / "likelihood.py"), run_name="__main__")
    summary = names["model"].summary()
    for name, truth in names["truth"].items():
        assert abs(summary.loc[name, "mean"] - truth) < 4 * summary.loc[name, "sd"]
    assert "Family: geometric" in capsys.readouterr().out
    new = {"x": [0.0, 1.0], "g": [3, 999]}
    predicted = names["model"].predict(new, interval=0.9, kind="response")
    assert (predicted["upper"] > predicted["mean"]).all()
    assert (predicted[["lower", "upper"]] % 1 == 0).all(axis=None)


def test_model_skeleton_recovers_its_truth(capsys: pytest.CaptureFixture[str]) -> None:
    """The skeleton's own run: the truth lies within four posterior sds."""
    names = runpy.run_path(str(SKELETONS / "model.py"), run_name="__main__")
    summary = names["posterior"].summary()
    for name, truth in names["truth"].items():
        assert abs(summary.loc[name, "mean"] - truth) < 4 * summary.loc[name, "sd"]
    assert capsys.readouterr().out.strip()
