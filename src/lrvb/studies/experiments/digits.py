"""The handwritten 0s and 1s of MNIST in 25 principal components, and what a mixture makes of them.

The study read the pixels as signed bytes, so that bright strokes (128…255) became negative; both
readings are offered. Data: MNIST (LeCun, Cortes, Burges), CC BY-SA 3.0.
See: app:mnist_details
"""

from __future__ import annotations

from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...errors import InvalidModel
from ...estimators.mixture.estimator import GaussianMixture
from . import matched

READINGS = ("uint8", "int8")


class Digits(NamedTuple):
    """Principal components of the training and test images, their labels, and how to draw them."""

    X: np.ndarray  # (12665, 25)
    labels: np.ndarray
    X_test: np.ndarray  # (2115, 25)
    labels_test: np.ndarray
    center: np.ndarray  # (784,)
    components: np.ndarray  # (25, 784)


def load(reading: str = "uint8") -> Digits:
    """The digits, with the pixels read as they are (`uint8`) or as the study did (`int8`)."""
    if reading not in READINGS:
        raise InvalidModel(f"reading={reading!r} must be one of {READINGS}.")
    source = resources.files("lrvb.studies.experiments") / "data" / "mnist01.npz"
    with resources.as_file(source) as path, np.load(path, allow_pickle=False) as data:
        center = data[f"pca_{reading}_mean"].astype(float)
        components = data[f"pca_{reading}_components"].astype(float)
        parts = {}
        for part in ("train", "test"):
            images = data[f"{part}_images"].reshape(-1, 784)
            pixels = images.view(np.int8) if reading == "int8" else images
            parts[part] = (pixels.astype(float) - center) @ components.T
        return Digits(
            parts["train"],
            data["train_labels"].astype(int),
            parts["test"],
            data["test_labels"].astype(int),
            center,
            components,
        )


def fit(digits: Digits, **options: Any) -> GaussianMixture:
    """The mixture with flat priors, started from the labels."""
    return matched.fit(digits.X, digits.labels, **options)


def accuracy(mixture: GaussianMixture, digits: Digits) -> float:
    """Share of test images whose label is the majority label of their cluster."""
    return 1 - errors(mixture, digits)["wrong"].sum() / len(digits.labels_test)


def errors(mixture: GaussianMixture, digits: Digits) -> pd.DataFrame:
    """Test images of each digit, and how many are not in a cluster where it has the majority."""
    clusters = mixture.predict(digits.X_test)
    table = pd.crosstab(clusters, digits.labels_test)
    majority = table.idxmax(axis=1)
    right = pd.Series(clusters).map(majority).to_numpy() == digits.labels_test
    rows = [
        {"digit": int(d), "images": int(mine.sum()), "wrong": int((mine & ~right).sum())}
        for d in np.unique(digits.labels_test)
        if (mine := digits.labels_test == d).any()
    ]
    return pd.DataFrame(rows)


def images(mixture: GaussianMixture, digits: Digits) -> pd.DataFrame:
    r"""The component means as pictures: a row for each component and pixel, with its sds.

    The picture of μ_k is c + Bᵀμ_k, B the principal components (25, 784) and c the centre, so that
    a pixel's variance is the diagonal of BᵀCov(μ_k)B; `sd` has the linear-response covariance,
    `mfvb_sd` mean field's.
    """
    B, pictures = digits.components, []
    for k, mean in enumerate(mixture.means_):
        names = [f"mu[{k},{p}]" for p in range(len(mean))]
        columns = {"component": k, "pixel": np.arange(B.shape[1]), "mean": digits.center + mean @ B}
        for column, method in (("sd", "lrvb"), ("mfvb_sd", "mfvb")):
            cov = mixture.posterior_.cov(names, method=method).to_numpy()
            columns[column] = np.sqrt(np.einsum("pi,pq,qi->i", B, cov, B))
        pictures.append(pd.DataFrame(columns))
    return pd.concat(pictures, ignore_index=True)
