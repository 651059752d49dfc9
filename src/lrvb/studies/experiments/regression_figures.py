"""The figures of a regression study: one of sd ratios, then three for each pair of priors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from .base import Figure

PRIORS = {"matched": "the same priors for fit and truth", "as published": "the study's priors"}


def list_figures(drawings: Any, ratios: str, captions: Mapping[str, str]) -> Iterator[Figure]:
    """Figures drawn by `draw_ratios`, `draw_sds`, `draw_means` and `draw_locals` of a module.

    `ratios` is the first one's caption; `captions` maps sds, means and locals to theirs, in which
    {priors} stands for the priors in words.
    """
    yield Figure("ratios", ratios, drawings.draw_ratios)
    for truth, words in PRIORS.items():
        for what, caption in captions.items():
            draw = partial(getattr(drawings, f"draw_{what}"), truth=truth)
            name = f"{what}-{truth.replace(' ', '-')}"
            yield Figure(name, caption.format(priors=words), draw)
