"""The table of a fitted mixed model, printed as a statistician expects it."""

from __future__ import annotations

import html
import textwrap

import pandas as pd

from ....errors import InvalidModel
from ....likelihoods.dispersion import labels_of
from ....posterior.intervals import check_probability
from ....posterior.posterior import Posterior
from ....posterior.verdicts import REPAIRED
from ..design.design import Design
from ..integral.certificate import VARIATIONAL, MixedCertificate
from ..priors.stated import MixedPriors
from .standard_deviations import correlation_table, sd_table

FIXED = "Fixed effects"
RANDOM = "Standard deviations and correlations of the random effects"
RESIDUAL = "Residual"
RESPONSE = "Parameters of the response"
WIDTH = 110  # characters of a line
STORED = 0.94  # the probability of intervals in a file


class Summary(pd.DataFrame):
    """A flat table by name, `mean, sd, mfvb_sd, lower, upper, verdict`, that prints itself in blocks.

    Parts of it are plain DataFrames. `heading` are the lines above, `blocks` maps a block's title to
    its names, `remark` gives the reason of the verdicts, `priors` is the table of priors.
    """

    _metadata = ["heading", "blocks", "remark", "priors"]

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        pieces = ["\n".join(self.heading)]
        header, *rows = pd.DataFrame(self).to_string(float_format=_number).split("\n")
        lines = dict(zip(self.index, rows, strict=True))
        for title, names in self.blocks.items():
            pieces.append("\n".join([title, header, *(lines[name] for name in names)]))
        pieces.append(textwrap.fill(f"Verdict: {self.remark}", WIDTH))
        pieces.append(f"Priors\n{_shown(self.priors).to_string(index_names=False)}")
        return "\n\n".join(pieces)

    def _repr_html_(self) -> str:
        pieces = [f"<p>{'<br>'.join(html.escape(line) for line in self.heading)}</p>"]
        for title, names in self.blocks.items():
            part = pd.DataFrame(self.loc[names])
            pieces.append(f"<h4>{html.escape(title)}</h4>{part.to_html(float_format=_number)}")
        pieces.append(f"<p>Verdict: {html.escape(self.remark)}</p>")
        shown = _shown(self.priors).to_html(index_names=False)
        pieces.append(f"<h4>Priors</h4>{shown}")
        return "\n".join(pieces)


def summarize_model(
    formula: str,
    factorization: str,
    design: Design,
    priors: MixedPriors,
    posterior: Posterior,
    certificate: MixedCertificate,
    prob: float,
    stored: pd.DataFrame | None = None,
) -> Summary:
    """Fixed effects, sds and correlations of the random effects, and the residual's sd.

    `stored` is the table of a variational fit that was read from a file, at the default probability.
    """
    check_probability("prob", prob)
    if stored is not None and prob != STORED:
        raise InvalidModel(
            f"A variational fit that was read from a file has the intervals of prob={STORED}, not of {prob}."
        )
    made = posterior.certificate
    if isinstance(made, MixedCertificate) and stored is None:
        certificate = made
    fixed = _fixed(design, posterior, prob) if stored is None else stored.loc[design.effects]
    fixed = fixed.drop(columns="verdict")
    if posterior.weighted is not None or stored is not None:
        every = posterior.summary(prob) if stored is None else stored.drop(columns="verdict")
        sds = every[every.index.str.startswith("sd[")]
        correlations = every[every.index.str.startswith("corr[")]
    else:
        sds = sd_table(design, posterior.response, prob)
        correlations = correlation_table(design, posterior, prob)
    dispersions = list(labels_of(design.dispersions)) if priors.dispersions else []
    own = [name for name in sds.index if name == "sd[residual]"]
    others = [name for name in sds.index if name not in own]
    parts = [fixed, sds.loc[others], correlations, sds.loc[own]]
    if dispersions:
        parts.append(posterior.summary(prob).loc[dispersions])
    table = Summary(pd.concat([part for part in parts if len(part)]))
    table["verdict"] = [certificate.verdict(str(name)) for name in table.index]
    if stored is not None:
        table["verdict"] = stored["verdict"]
    repaired = table.index[table["verdict"] == REPAIRED]
    if len(repaired) and certificate.judged is not None:
        columns = ["mean", "sd", "lower", "upper"]
        table.loc[repaired, columns] = certificate.summary(prob).loc[repaired, columns]
    table.remark = certificate.sentence([str(name) for name in table.index])
    blocks = {FIXED: list(fixed.index), RANDOM: [*others, *correlations.index], RESIDUAL: own}
    blocks[RESPONSE] = dispersions
    table.heading = _heading(formula, factorization, design, posterior, certificate)
    table.blocks = {title: names for title, names in blocks.items() if names}
    table.priors = priors.table()
    return table


def _fixed(design: Design, posterior: Posterior, prob: float) -> pd.DataFrame:
    return posterior.summary(prob).loc[design.effects]


def _heading(
    formula: str,
    factorization: str,
    design: Design,
    posterior: Posterior,
    certificate: MixedCertificate,
) -> tuple[str, ...]:
    used = dict.fromkeys(term.factor for term in design.terms)
    factors = [design.factors[f] for f in used]
    structured = [
        f"{s.group} ({len(s.levels):,} levels with a structure)" for s in design.structured
    ]
    listed = [*(f"{f.name} ({len(f.levels):,} levels)" for f in factors), *structured]
    groups = f"; groups: {', '.join(listed)}" if listed else ""
    dropped = f" ({design.dropped:,} dropped for missing values)" if design.dropped else ""
    how = "converged" if posterior.converged else f"NOT converged ({posterior.convergence.reason})"
    reached = f"ELBO: {posterior.elbo:.6g}, {how} in {posterior.n_iter} iterations"
    if certificate.method != VARIATIONAL:
        evidence = f"{certificate.log_evidence:.6g} ± {certificate.log_evidence_error:.2g}"
        before = "" if certificate.judged is None else f"{reached}; "
        reached = f"{before}{'log' if before else 'Log'} evidence: {evidence}"
    return (
        f"{'Mixed model' if listed else 'Regression'}: {formula}",
        f"Family: {design.family.name}; factorization: {factorization}",
        f"Rows: {design.n:,}{dropped}{groups}",
        reached,
    )


def _shown(priors: pd.DataFrame) -> pd.DataFrame:
    """Priors with the word default instead of a truth value."""
    said = priors["default"].map({True: "default", False: "stated"})
    return priors.assign(default=said).rename(columns={"default": ""})


def _number(value: float) -> str:
    return f"{value:.4g}"
