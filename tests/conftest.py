"""`pytest --case NAME`: the laws of one shipped thing only. And what tests do not pay for."""

from __future__ import annotations

from typing import Any

import pytest

from lrvb.posterior.certification import Certifier, Checked

#: Files whose fits have their automatic certificates; elsewhere they would only cost compilations.
CERTIFIED = ("test_certificate", "test_docs", "test_public", "first_steps")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--case",
        metavar="NAME",
        help="run only the laws of one model, family or likelihood: Gamma, or one case, Gamma-tiny",
    )
    parser.addoption(
        "--odd-inputs-seconds",
        type=float,
        default=100.0,
        metavar="S",
        help="how long to throw odd inputs at every public function (default: 100)",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the laws whose case is NAME or begins with "NAME-"; the rest is deselected."""
    wanted = config.getoption("--case")
    if wanted is None:
        return
    names = [_case_of(item) for item in items]
    kept = [name is not None and _is(name, wanted) for name in names]
    if not any(kept):
        known = sorted({name.split("-")[0] for name in names if name is not None})
        raise pytest.UsageError(f"--case {wanted}: no such case among {', '.join(known)}.")
    config.hook.pytest_deselected(
        items=[item for item, keep in zip(items, kept, strict=True) if not keep]
    )
    items[:] = [item for item, keep in zip(items, kept, strict=True) if keep]


def _case_of(item: pytest.Item) -> str | None:
    """The name of the case a law runs on: of its parameter `case`, when that has a name."""
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return getattr(parameters.get("case"), "name", None)


def _is(name: str, wanted: str) -> bool:
    """Whether "Gamma-tiny" is asked for by "Gamma" or by its whole name."""
    return name == wanted or name.startswith(wanted + "-")


@pytest.fixture(autouse=True)
def uncertified(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Laws of the fit and of linear response are asked of fits without certificates."""
    if not request.node.path.stem.startswith(CERTIFIED):
        unchecked = Checked(reason="tests pay for certificates where they are tested")
        monkeypatch.setattr(Certifier, "automatic", lambda self, *, progress=False: unchecked)
