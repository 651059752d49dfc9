"""Linear response variational Bayes: fast posterior means with honest uncertainties.

State a model (or pick one from `lrvb.models`), call `lrvb.infer`, and ask the posterior for means,
standard deviations, covariances of anything, and the local variables of every row.
"""

import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from .errors import (
    BeyondTheData,
    CacheRefused,
    CoincidentComponents,
    CollinearColumns,
    EmptyComponent,
    ForkedProcess,
    InvalidData,
    InvalidModel,
    LargeCorrection,
    LrvbError,
    NewLevels,
    NotAMaximum,
    NotAveraged,
    NotConverged,
    NotFitted,
    RowsGathered,
)

try:
    __version__ = version("lrvb")
    """The version of the installed package."""
except PackageNotFoundError:  # pragma: no cover - a source tree that is not installed
    __version__ = "0+unknown"

if TYPE_CHECKING:
    from . import likelihoods, models, plot, prior
    from .bridges.log_density import BlackBox, from_log_density
    from .bridges.numpyro import from_numpyro
    from .bridges.pymc import from_pymc
    from .collapsed.autodiff import AutodiffSum
    from .collapsed.gram import GramSum
    from .collapsed.partitions import Chunks
    from .collapsed.seam import LocalSum
    from .data.tables import Rows
    from .engine.checking import Check, check
    from .engine.curvature import Curvature, linearize
    from .engine.fitting import Fit, fit
    from .engine.response import Response, respond
    from .estimators.loading import load
    from .estimators.mixed.estimator import MixedModel
    from .estimators.mixed.integral.certificate import MixedCertificate
    from .estimators.mixture.estimator import GaussianMixture
    from .families import (
        Beta,
        Categorical,
        Dirichlet,
        Family,
        Gamma,
        GaussianChain,
        MarkovChain,
        MultivariateNormal,
        Normal,
        Tilted,
        Wishart,
    )
    from .posterior.certificate import Certificate
    from .posterior.check_up import CheckUp
    from .posterior.comparison import compare
    from .posterior.fragility import Fragility
    from .posterior.inference import infer, summarize
    from .posterior.posterior import Posterior
    from .posterior.wide import WidePosterior
    from .statement.model import Model

_MODULES = ("likelihoods", "models", "plot", "prior")
_HOMES = {
    "AutodiffSum": ".collapsed.autodiff",
    "Beta": ".families",
    "BlackBox": ".bridges.log_density",
    "Categorical": ".families",
    "Certificate": ".posterior.certificate",
    "Check": ".engine.checking",
    "CheckUp": ".posterior.check_up",
    "Chunks": ".collapsed.partitions",
    "Curvature": ".engine.curvature",
    "Dirichlet": ".families",
    "Family": ".families",
    "Fit": ".engine.fitting",
    "Fragility": ".posterior.fragility",
    "Gamma": ".families",
    "GaussianChain": ".families",
    "GaussianMixture": ".estimators.mixture.estimator",
    "GramSum": ".collapsed.gram",
    "LocalSum": ".collapsed.seam",
    "MarkovChain": ".families",
    "MixedCertificate": ".estimators.mixed.integral.certificate",
    "MixedModel": ".estimators.mixed.estimator",
    "Model": ".statement.model",
    "MultivariateNormal": ".families",
    "Normal": ".families",
    "Posterior": ".posterior.posterior",
    "Response": ".engine.response",
    "Rows": ".data.tables",
    "Tilted": ".families",
    "WidePosterior": ".posterior.wide",
    "Wishart": ".families",
    "check": ".engine.checking",
    "compare": ".posterior.comparison",
    "fit": ".engine.fitting",
    "from_log_density": ".bridges.log_density",
    "from_numpyro": ".bridges.numpyro",
    "from_pymc": ".bridges.pymc",
    "infer": ".posterior.inference",
    "linearize": ".engine.curvature",
    "load": ".estimators.loading",
    "respond": ".engine.response",
    "summarize": ".posterior.inference",
}


def __getattr__(name: str) -> Any:
    """Everything but the errors is imported on first use: JAX and others take longer than a small fit."""
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name], __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(
        f"module 'lrvb' has no attribute '{name}'", name=name, obj=sys.modules[__name__]
    )


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AutodiffSum",
    "Beta",
    "BeyondTheData",
    "BlackBox",
    "CacheRefused",
    "Categorical",
    "Certificate",
    "Check",
    "CheckUp",
    "Chunks",
    "CoincidentComponents",
    "CollinearColumns",
    "Curvature",
    "Dirichlet",
    "EmptyComponent",
    "Family",
    "Fit",
    "ForkedProcess",
    "Fragility",
    "Gamma",
    "GaussianChain",
    "GaussianMixture",
    "GramSum",
    "InvalidData",
    "InvalidModel",
    "LargeCorrection",
    "LocalSum",
    "LrvbError",
    "MarkovChain",
    "MixedCertificate",
    "MixedModel",
    "Model",
    "MultivariateNormal",
    "NewLevels",
    "Normal",
    "NotAMaximum",
    "NotAveraged",
    "NotConverged",
    "NotFitted",
    "Posterior",
    "Response",
    "Rows",
    "RowsGathered",
    "Tilted",
    "WidePosterior",
    "Wishart",
    "__version__",
    "check",
    "compare",
    "fit",
    "from_log_density",
    "from_numpyro",
    "from_pymc",
    "infer",
    "likelihoods",
    "linearize",
    "load",
    "models",
    "plot",
    "prior",
    "respond",
    "summarize",
]
