"""Linear response variational Bayes: fast posterior means with honest uncertainties.

State a model (or pick one from `lrvb.models`), call `lrvb.infer`, and ask the posterior for means,
standard deviations, covariances of anything, and the local variables of every row.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

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
from .errors import (
    CacheRefused,
    CoincidentComponents,
    ForkedProcess,
    InvalidData,
    InvalidModel,
    LargeCorrection,
    LrvbError,
    NewLevels,
    NotAMaximum,
    NotAveraged,
    NotConverged,
)
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
from .posterior.posterior import Posterior, infer, summarize
from .posterior.storage import load
from .posterior.wide import WidePosterior
from .statement.model import Model

try:
    __version__ = version("lrvb")
    """The version of the installed package."""
except PackageNotFoundError:  # pragma: no cover - a source tree that is not installed
    __version__ = "0+unknown"

if TYPE_CHECKING:
    from .estimators.mixed.estimator import MixedModel
    from .estimators.mixture.estimator import GaussianMixture


def __getattr__(name: str) -> Any:
    """Estimators are imported on first use: scikit-learn takes longer to import than we do."""
    if name == "GaussianMixture":
        from .estimators.mixture.estimator import GaussianMixture

        return GaussianMixture
    if name == "MixedModel":
        from .estimators.mixed.estimator import MixedModel

        return MixedModel
    raise AttributeError(f"module 'lrvb' has no attribute '{name}'")


__all__ = [
    "AutodiffSum",
    "Beta",
    "BlackBox",
    "CacheRefused",
    "Categorical",
    "Certificate",
    "Check",
    "Chunks",
    "CoincidentComponents",
    "Curvature",
    "Dirichlet",
    "Family",
    "Fit",
    "ForkedProcess",
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
    "MixedModel",
    "Model",
    "MultivariateNormal",
    "NewLevels",
    "Normal",
    "NotAMaximum",
    "NotAveraged",
    "NotConverged",
    "Posterior",
    "Response",
    "Rows",
    "Tilted",
    "WidePosterior",
    "Wishart",
    "__version__",
    "check",
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
