"""Figures of fitted models; Matplotlib is imported when one is drawn (`pip install lrvb[plot]`)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .data.tables import kind_of
from .errors import InvalidModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MIXTURE, _MODEL = "a fitted GaussianMixture", "a fitted MixedModel"


def mixture(
    estimator: Any,
    X: Any,
    columns: tuple[Any, Any] = (0, 1),
    ax: Axes | None = None,
    *,
    draws: int = 30,
    seed: int = 0,
) -> Axes:
    """A fitted `GaussianMixture` over two columns of X, given by number or by name.

    Rows have the colours of their components. Of each component: the region of 90 % of its rows,
    solid at the posterior mean and faint for `draws` draws from the posterior; a cross at its mean
    with the 95 % region of that mean, filled by linear response and dashed by mean field. Without
    `ax` a new figure also shows each mean's region enlarged. Returns the main axes.
    """
    with _matplotlib():
        from .report.mixture_plots import draw_mixture
    _require(estimator, "component_weights", _MIXTURE, ax, columns)
    return draw_mixture(estimator, X, columns, ax, draws=draws, seed=seed)


def coefficients(
    model: Any, names: Any = None, ax: Axes | None = None, *, prob: float = 0.94
) -> Axes:
    """The fixed effects of a fitted `MixedModel`, each with both intervals.

    Blue are the answer's, orange what mean field, or a variational fit alone, would have said. `names`
    chooses some of them.
    """
    with _matplotlib():
        from .report.mixed_plots import draw_coefficients
    _require(model, "ranef", _MODEL, ax, names)
    return draw_coefficients(model, names, ax, prob=prob)


def ranef(
    model: Any, term: str | None = None, ax: Axes | None = None, *, prob: float = 0.94
) -> Axes:
    """A caterpillar: every level's effect with its interval, sorted by the means.

    `term` is one coefficient of a fitted `MixedModel`, such as "1|g"; the first by default.
    """
    with _matplotlib():
        from .report.mixed_plots import draw_ranef
    _require(model, "ranef", _MODEL, ax, term)
    return draw_ranef(model, term, ax, prob=prob)


def smooth(model: Any, name: str, ax: Axes | None = None, *, prob: float = 0.94) -> Axes:
    """A smooth of a fitted `MixedModel`, such as "s(x)": the curve and its band, with the rows' places.

    One curve for every level of a smooth by a group. The scale is that of the linear predictor.
    """
    with _matplotlib():
        from .report.smooth_plots import draw_smooth
    _require(model, "ranef", _MODEL, ax, name)
    return draw_smooth(model, name, ax, prob=prob)


def fitted(model: Any, ax: Axes | None = None, *, interval: float = 0.9, seed: int = 0) -> Axes:
    """Fitted means of a `MixedModel` with their intervals, against the observed responses.

    For zeros and ones: the share of ones among rows with similar fitted probabilities. Of many
    rows a part is drawn, chosen by `seed`.
    """
    with _matplotlib():
        from .report.mixed_plots import draw_fitted
    _require(model, "ranef", _MODEL, ax)
    return draw_fitted(model, ax, interval=interval, seed=seed)


def predictive_check(
    model: Any, ax: Axes | None = None, *, replicates: int = 50, seed: int = 0
) -> Axes:
    """The observed responses of a fitted `MixedModel` beside replicated data sets.

    Small whole numbers by their shares of the rows, with the middle 90 % of the replicates; other
    responses by their distribution functions.
    """
    with _matplotlib():
        from .report.check_plots import draw_predictive
    _require(model, "ranef", _MODEL, ax)
    return draw_predictive(model, ax, replicates=replicates, seed=seed)


def residuals(model: Any, ax: Axes | None = None, *, kind: str = "quantile", seed: int = 0) -> Axes:
    """Residuals of a fitted `MixedModel` against fitted means, with means of rows that are alike.

    Without `ax` a second panel has them sorted against a normal's. `kind` is as in
    `MixedModel.residuals`; quantile residuals of a right model are standard normal.
    """
    with _matplotlib():
        from .report.check_plots import draw_residuals
    _require(model, "ranef", _MODEL, ax)
    return draw_residuals(model, ax, kind=kind, seed=seed)


def effect(
    model: Any,
    variable: str,
    by: str | None = None,
    ax: Axes | None = None,
    *,
    groups: Any = "all",
    prob: float = 0.94,
) -> Axes:
    """The expected response of a fitted `MixedModel` along one column, averaged over the rows.

    One curve for every value of the column `by`. `groups` is as in `MixedModel.predict`.
    """
    with _matplotlib():
        from .report.marginal_plots import draw_effect
    _require(model, "ranef", _MODEL, ax, variable)
    return draw_effect(model, variable, by, ax, groups=groups, prob=prob)


def comparisons(table: Any, ax: Axes | None = None) -> Axes:
    """A table of `MixedModel.comparisons` or `slopes`, row by row, as intervals."""
    with _matplotlib():
        from .report.marginal_plots import draw_comparisons
    _require(table, "columns", "the table of a MixedModel's comparisons(…, by=…) or slopes", ax)
    return draw_comparisons(table, ax)


def certificate(
    found: Any, names: Any = None, ax: Axes | None = None, *, prob: float = 0.94
) -> Axes:
    """All answers of a `Certificate`, quantity by quantity, in certified sds from the certified mean.

    Blue bars are linear response's interval, yellow mean field's, black ones the certified; the verdict
    stands beside them. `names` chooses some of the quantities.
    """
    with _matplotlib():
        from .report.certificate_plot import draw_certificate
    _require(
        found, "verdicts", "a Certificate: model.certificate_, or posterior.certify()", ax, names
    )
    return draw_certificate(found, names, ax, prob=prob)


def prior_sensitivity(table: Any, ax: Axes | None = None, *, most: int = 15) -> Axes:
    """The largest changes of `Posterior.prior_sensitivity`: a lollipop for each plain step of a prior.

    Those beyond half a posterior sd, where the prior decides, are red; what `verify=` fitted is hollow.
    """
    with _matplotlib():
        from .report.what_if_plots import draw_prior_sensitivity
    _require(table, "columns", "the table of posterior.prior_sensitivity()", ax)
    return draw_prior_sensitivity(table, ax, most=most)


def influence(
    table: Any, name: str | None = None, ax: Axes | None = None, *, labelled: int = 5
) -> Axes:
    """The influence of every row or level on one quantity, a column of `Posterior.influence`.

    The first column by default; the `labelled` largest have their labels, and up to 40 levels all of them.
    """
    with _matplotlib():
        from .report.what_if_plots import draw_influence
    _require(table, "columns", "the table of posterior.influence()", ax, name)
    return draw_influence(table, name, ax, labelled=labelled)


def robust(
    posterior: Any,
    names: Any = None,
    by: Any = None,
    ax: Axes | None = None,
    *,
    prob: float = 0.94,
) -> Axes:
    """Intervals by the posterior's sds and by robust ones, quantity by quantity, in posterior sds."""
    with _matplotlib():
        from .report.what_if_plots import draw_robust
    _require(
        posterior, "sd", "a posterior, such as that of lrvb.infer, or model.posterior_", ax, names
    )
    return draw_robust(posterior, names, by, ax, prob=prob)


def _require(given: Any, has: str, what: str, ax: Any, second: Any = None) -> None:
    """Refuse what a figure is not of, an `ax` that is none, and axes given in the second place."""
    if not hasattr(type(given), has):
        kind = kind_of(given)
        raise InvalidModel(f"{kind[0].upper()}{kind[1:]} was given; this figure is of {what}.")
    if hasattr(second, "axvline"):
        raise InvalidModel("Axes are given by name, ax=…; the second argument is another.")
    if ax is not None and not hasattr(ax, "axvline"):
        raise InvalidModel(f"ax is {kind_of(ax)}; give one of Matplotlib's axes, or none.")


@contextlib.contextmanager
def _matplotlib() -> Iterator[None]:
    """Imports that need Matplotlib; the error says how to get it, when it is what is missing."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").split(".")[0] != "matplotlib":
            raise
        raise ImportError(
            "lrvb.plot needs Matplotlib, which is not installed: pip install 'lrvb[plot]'.",
            name="matplotlib",
        ) from error


__all__ = [
    "certificate",
    "coefficients",
    "comparisons",
    "effect",
    "fitted",
    "influence",
    "mixture",
    "predictive_check",
    "prior_sensitivity",
    "ranef",
    "residuals",
    "robust",
    "smooth",
]
