"""MixedModel: a formula, a family and a data frame; means, sds and random effects that can be trusted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data.tables import shortened
from ...engine.convergence import Convergence
from ...engine.curvature import linearize
from ...engine.response import respond
from ...errors import InvalidModel
from ...integrated.effort import TooMuchWork
from ...integrated.mode import NoMode
from ...integrated.surrogate import NotSmooth
from ...likelihoods import DEFAULT, Likelihood, likelihood_of
from ...posterior.certification import Checked
from ...posterior.estimate import Estimate
from ...posterior.posterior import Posterior
from ...statement.problem import state_problem
from ..unfitted import Unfitted, not_fitted
from .after_the_fit import AfterTheFit, Drawn
from .answers.contrast import contrast_table
from .answers.drawing import VariationalDraws
from .answers.effects import LevelEffects, effects_table
from .answers.levels import Effects
from .answers.prediction import (
    LINK,
    Answers,
    VariationalAnswers,
    check_request,
    left_out,
    predict_rows,
)
from .answers.standard_deviations import derived_correlations, derived_sds, with_derived
from .answers.summary import Summary, summarize_model
from .comparison import Predictive
from .curves import Curves
from .design.design import Design, build
from .design.requirements import require_effects, require_no_smooths, require_noise
from .design.standardised import Standardisation, fixed_prior, standardisation
from .fit.arrangement import Arrangement
from .fit.joint_response import JointResponse, coordinate_names, join, refine_joint
from .fit.optimum import find_optimum
from .fit.precision_model import PrecisionModel
from .fit.progress import draws_bar, wants_bar
from .integral.block_gap import BlockGap
from .integral.certificate import MixedCertificate, variational_certificate
from .integral.fit import IntegratedFit, integrate_model
from .integral.influence import sensitivity_of
from .integral.joint import IntegratedDraws
from .integral.judging import MixedCertifier
from .integral.levels import IntegratedEffects
from .integral.prediction import IntegratedAnswers
from .integral.statement import NoExactSums
from .partitions.scattered import ScatteredDesign
from .priors.stated import MixedPriors, resolve
from .text.formula import parse

if TYPE_CHECKING:
    import pandas as pd

FACTORIZATIONS = ("blocked", "variational", "mean_field")


class MixedModel(Unfitted, AfterTheFit, Predictive, Curves):
    r"""A generalised linear mixed model from a formula in lme4's syntax.

    η = Xβ + Σ_t r_t z_t,k + offset, z_tk ~ N(0, Λ_t⁻¹), and y given η by the family: a name
    of `lrvb.likelihoods.FAMILIES`, such as "gaussian", "poisson", "negbinomial", "bernoulli(probit)",
    "binomial" (the response `prop(successes, trials)`) or "cumulative", or a
    `lrvb.likelihoods.Likelihood` of your own. With `factorization="blocked"` the sds and correlations
    are integrated by importance sampling, with all coefficients (β, z) summed out exactly given
    them; where that cannot be done, by a Gaussian block given them, whose evidence every level's own
    sum mends. "variational": β and z share one Gaussian factor, beside Gamma and Wishart factors.
    "mean_field" is q(β) Π q(z_tk) q(Λ_t) q(τ), as in the paper. `certificate_` says which, and the summary
    has a verdict on every quantity. `priors` are by name, on the data's own scale; `missing="drop"`
    leaves out rows with missing values and counts them in `dropped_`. `functions` are your own,
    by the names that the formula has for them: a function of
    columns that gives one number or label for every row. `weights` names a column of frequencies: a row
    with weight w counts as w rows do; weights that are no whole numbers are powers of its likelihood, and
    rows of weight 0 are left out. `structures` maps groups to known precision matrices Q of their levels,
    z ~ N(0, sd² Q⁻¹): arrays, SciPy's sparse ones, or DataFrames labelled by levels.
    `progress` shows a bar, or none; left open, a person who waits for many rows sees one.
    `verbose` is another name for it. After a fit, `elbo_`
    (integrated: the log evidence, which is `log_evidence_` too), `n_iter_` (draws) and `converged_`
    (whether the draws' weights can be averaged) say how it went.
    """

    def __init__(
        self,
        formula: str,
        family: str | Likelihood = DEFAULT,
        priors: Mapping[str, Any] | None = None,
        factorization: str = "blocked",
        *,
        missing: str = "error",
        tol: float = 1e-8,
        max_iter: int = 200,
        progress: bool | None = None,
        verbose: bool | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        weights: str | None = None,
        structures: Mapping[str, Any] | None = None,
    ):
        if factorization not in FACTORIZATIONS:
            raise InvalidModel(
                f"factorization={factorization!r} must be one of {', '.join(FACTORIZATIONS)}."
            )
        if not isinstance(formula, str):
            raise InvalidModel(
                f"formula={shortened(formula)} must be text, such as 'y ~ x + (1|g)'; the family is the "
                "second argument and the data go to fit."
            )
        if progress is not None and verbose is not None and bool(progress) != bool(verbose):
            raise InvalidModel(
                f"progress={progress!r} and verbose={verbose!r} are two names for one option; give one."
            )
        _require_fittable(likelihood_of(family), factorization)
        self.formula, self.family, self.priors = formula, family, priors
        self.factorization, self.missing = factorization, missing
        self.tol, self.max_iter, self.functions = tol, max_iter, functions
        self.progress, self.verbose = progress, verbose
        self.weights, self.structures = weights, structures

    def fit(self, data: Any) -> MixedModel:
        """Fit the model to a pandas, polars or Dask DataFrame, or a mapping of columns.

        Rows on Dask stay in their partitions where the response is gaussian or they are many; few are brought
        together, with a warning.
        """
        design = self._read(data)
        self._remember(data)
        return self._fit(design)

    def _fit(self, design: Design) -> MixedModel:
        """Fit the model to a design."""
        require_effects(design, self.factorization)
        require_noise(design)
        standard = standardisation(design)
        why = "a variational fit, which nothing has checked; posterior_.certify() does"
        if self.factorization == "blocked":
            bar = draws_bar(self.progress, self.verbose)
            try:
                priors = resolve(self.priors, design)
                found = integrate_model(design, priors, standard, bar)
            except NotSmooth:
                # rows in partitions tell too little for sums that leave them there
                assert isinstance(design, ScatteredDesign)
                return self._fit(design.gather())
            except (NoExactSums, TooMuchWork, NoMode) as error:
                _require_fittable(design.family, self.factorization, _lower(str(error)))
                require_no_smooths(design, _lower(str(error)))
                self._require_conjugate(design, str(error))
                why = f"{_lower(str(error))}; this is the variational fit"
            else:
                self._keep_integrated(design, priors, found)
                return self
        self._fit_variational(design, standard, why)
        return self

    def _require_conjugate(self, design: Design, why: str) -> None:
        """Refuse, with what the matter is, priors that no variational fit has."""
        try:
            resolve(self.priors, design, of_precisions=True)
        except InvalidModel as error:
            raise InvalidModel(f"{why} Nor is there a variational fit: {error}") from error

    def _read(self, data: Any) -> Design:
        if not hasattr(data, "__dask_graph__"):
            own = self.functions, self.weights, self.structures
            return build(self.formula, data, self.family, self.missing, *own)
        if parse(self.formula).smooths or self.structures:
            raise InvalidModel(
                "Rows on Dask have no smooths and no structures; give a pandas DataFrame, or columns that "
                "you make yourself."
            )
        if self.weights is not None:
            raise InvalidModel(
                "Rows on Dask cannot be weighted; give a pandas DataFrame, or leave out weights="
                f"{self.weights!r}."
            )
        from .partitions.reading import build_partitioned

        family, blocked = likelihood_of(self.family), self.factorization == "blocked"
        return build_partitioned(self.formula, data, family, self.missing, self.functions, blocked)

    def _fit_variational(self, design: Design, standard: Standardisation, why: str) -> None:
        """One Gaussian factor of all coefficients, or one of each, and conjugate factors beside."""
        priors = resolve(self.priors, design, of_precisions=True)
        problem = state_problem(PrecisionModel(priors, design), None)
        optimum, arrangement = find_optimum(
            design,
            problem,
            standard,
            fixed_prior(priors, standard),
            self.factorization,
            tol=self.tol,
            max_iter=self.max_iter,
            progress=wants_bar(design.n, self.progress, self.verbose),
        )
        averaged = self.factorization != "mean_field"
        response = respond(linearize(optimum))
        joint = join(arrangement.block, response, standard, averaged=averaged)
        self._keep_variational(design, priors, standard, arrangement, joint, why)

    def _keep_variational(
        self,
        design: Design,
        priors: MixedPriors,
        standard: Standardisation,
        arrangement: Arrangement,
        joint: JointResponse,
        why: str = "",
        derived: bool = True,
    ) -> None:
        """Keep a fit; `derived` adds sds and correlations to its names."""
        judge = self.factorization != "blocked" or None  # another has tried to integrate
        fit = joint.precisions.fit
        known = fit.point.state if arrangement.block.joint else None
        gap = BlockGap(design, priors, standard, joint.precisions.alpha, fit.m, known)

        def posterior(estimate: Estimate, local_variables: Effects | None = None) -> Posterior:
            return Posterior(
                estimate,
                joint.precisions.fit.convergence,
                local_variables=local_variables,
                observed=design.observed,
                response=joint.precisions,
                second_order=functools.partial(refine_joint, joint, standard, gap),
                certifier=judge and MixedCertifier(design, priors, standard, estimate),
                checked=Checked(reason=why or "a variational fit is not checked"),
            )

        estimate = replace(joint.estimate, labels=tuple(coordinate_names(design, joint)))
        M = np.eye(len(estimate.m))[list(estimate.index.values())]
        if derived:
            parts = [derived_sds(design, joint.precisions)]
            if any(len(term.coefficients) > 1 for term in design.terms):
                parts.append(derived_correlations(design, posterior(estimate)))
            J = np.concatenate([part.J for part in parts])
            M = np.vstack([M, np.hstack([np.zeros((len(J), M.shape[1] - J.shape[1])), J])])
            estimate = with_derived(estimate, parts)
        effects = Effects(design, standard, arrangement, joint, list(estimate.index), M)
        answers = VariationalAnswers(design, standard, arrangement, joint)
        self._joint, self._arrangement, self._standard = joint, arrangement, standard
        self._drawn = Drawn(VariationalDraws(design, standard, arrangement, joint))
        certificate = variational_certificate(why)
        self._keep(design, priors, posterior(estimate, effects), effects, answers, certificate)

    def _keep_integrated(self, design: Design, priors: MixedPriors, found: IntegratedFit) -> None:
        certificate = found.certificate
        how = Convergence(
            elbo=certificate.log_evidence,
            trace=np.array([certificate.log_evidence]),
            n_iter=certificate.drawn,
            converged=certificate.k_hat < 0.7,
            reason="" if certificate.k_hat < 0.7 else f"k-hat is {certificate.k_hat:.2f}",
            stationarity=0.0,
            unit="draw",
        )
        effects = IntegratedEffects(found)
        self._drawn = Drawn(IntegratedDraws(found))
        posterior = Posterior(
            found.estimate,
            how,
            local_variables=effects,
            observed=design.observed,
            origin="made by integration over the hyperparameters",
            weighted=found.weighted,
            absent=found.absent,
            sensitivity=sensitivity_of(found, priors),
        )
        self._keep(design, priors, posterior, effects, IntegratedAnswers(found), certificate)
        self._integrated = found

    def _keep(
        self,
        design: Design,
        priors: MixedPriors,
        posterior: Posterior,
        effects: LevelEffects,
        answers: Answers,
        certificate: MixedCertificate,
    ) -> None:
        self.posterior_, self.certificate_ = posterior, certificate
        if certificate.weighted is not None:
            posterior.checked = Checked(integrated=certificate)
        self.design_, self.priors_ = design, priors
        self.n_rows_, self.dropped_ = design.n, design.dropped
        self.elbo_, self.n_iter_ = posterior.elbo, posterior.n_iter
        self.log_evidence_ = certificate.log_evidence
        self.converged_ = posterior.converged
        self._effects, self._answers = effects, answers
        self._stored_summary: pd.DataFrame | None = None  # of a variational fit from a file

    def __repr__(self) -> str:
        state = "not fitted"
        if hasattr(self, "posterior_"):
            how = "converged" if self.converged_ else "NOT converged"
            state = f"{self.n_rows_:,} rows, {how} in {self.posterior_.convergence.steps}"
        family = likelihood_of(self.family).name
        return f"<lrvb.MixedModel '{self.formula}', {family}, {self.factorization}: {state}>"

    def _fitted(self) -> Posterior:
        if not hasattr(self, "posterior_"):
            raise not_fitted(self)
        return self.posterior_

    def _design(self) -> Design:
        self._fitted()
        return self.design_

    # ---- tables ---------------------------------------------------------------------------

    def summary(self, prob: float = 0.94) -> Summary:
        """A DataFrame `mean, sd, mfvb_sd, lower, upper, verdict`, printed with heading, blocks and priors.

        Fixed effects by their names; `sd[1|g]`, `sd[x|g]` and `corr[g][1,x]` of the random effects;
        `sd[residual]`. Intervals are quantiles of the weighted draws; of a variational fit those of
        sds are made on the log scale, and correlations summarised from draws with a fixed seed.
        `mfvb_sd` is that of a factor of its own: of coefficients given the expected sds, of an sd
        given what is expected of the squares of its effects.
        """
        return summarize_model(
            self.formula,
            self.factorization,
            self._design(),
            self.priors_,
            self.posterior_,
            self.certificate_,
            prob,
            self._stored_summary,
        )

    def contrast(self, contrasts: Any, prob: float = 0.94) -> pd.DataFrame:
        """`mean, sd, mfvb_sd, z, lower, upper` of sums of coefficients, with z = mean/sd.

        A contrast is text such as "x1 - x2" or "2*x1 - 0.5*c[b]", of any names of `posterior_`;
        several come as a list, or as a mapping from names of your own. Other formulas, such as
        "exp(x)" or "sd[1|g]**2 / (sd[1|g]**2 + sd[residual]**2)", are evaluated on joint draws, and have
        their mfvb_sd by the delta method.
        """
        references = self._design().fixed.references()
        return contrast_table(contrasts, self._fitted(), prob, references, self._values)

    def predict(
        self,
        new_data: Any = None,
        interval: float | None = None,
        kind: str = "mean",
        *,
        groups: Any = "all",
        scale: str = "response",
    ) -> pd.DataFrame:
        """Predictions of new rows, or of the rows of the fit: `mean`, `sd`, and `lower`, `upper`.

        They include the random effects, and the uncertainty of all coefficients together. A level
        that the fit has not seen gets the mean 0 and the variance of its term; (1|obs) is such a
        level in every new row. kind="mean" is the expected response given covariates and groups
        (for a binomial response the probability), and its interval that of the linear predictor
        through the link. kind="response" is a new observation, with the family's own noise: counts
        have whole-numbered ends, which hold at least the probability asked for; those of a
        bernoulli response are 0 or 1.

        groups="none" leaves the random effects out, which is the population's prediction at an
        effect of zero; a list such as ["1|g"] keeps some. scale="link" is the linear predictor itself.
        """
        design = self._design()
        check_request(interval, kind, scale, design.family)
        how = LINK if scale == "link" else kind
        return predict_rows(self, design, new_data, interval, how, left_out(design, groups))

    # ---- random effects -------------------------------------------------------------------

    def ranef(self, term: str | None = None, prob: float = 0.94) -> pd.DataFrame:
        """Every level's effect: `mean, sd, mfvb_sd, lower, upper`, indexed by term and level.

        `term` is one coefficient, such as "1|g"; all of them by default. Intervals of an integrated
        model are quantiles of the mixture over its draws; of a variational fit those of a normal.
        """
        return effects_table(self._fitted(), self._effects, term, prob)


def _require_fittable(family: Likelihood, factorization: str, why: str = "") -> None:
    """A variational fit has no dispersion but the residual of a normal response."""
    if family.dispersions and not family.quadratic and (why or factorization != "blocked"):
        reason = f": {why}" if why else f", which is what factorization={factorization!r} asks for"
        raise InvalidModel(
            f"family={family.name!r} has the parameter '{family.dispersions[0].name}', which is integrated "
            f"with the sds and has no variational fit{reason}."
        )


def _lower(sentence: str) -> str:
    """A sentence as a clause."""
    return sentence[:1].lower() + sentence[1:].rstrip(".")
