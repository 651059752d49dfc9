"""Handwritten 0s against 1s as a mixture of two normals in 25 principal components.

The study read the pixels as signed bytes, so that bright strokes (128…255) became negative; both
readings are offered. Data: MNIST (LeCun, Cortes, Burges), CC BY-SA 3.0.
Paper: app:mnist_details
"""

from __future__ import annotations

from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidModel

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
    source = resources.files("lrvb.experiments") / "data" / "mnist01.npz"
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


def fit(digits: Digits, **options: Any) -> Any:
    """The mixture with flat priors, started from the labels."""
    from ..estimators.mixture import GaussianMixture

    P = digits.X.shape[1]
    flat = {
        "mean_precision_prior": 0.0,
        "wishart_dof_prior": P + 1,
        "wishart_scale_prior": np.inf,
        "weight_concentration_prior": 0.0,
    }
    start = np.eye(2)[digits.labels]
    return GaussianMixture(2, init=start, **{**flat, **options}).fit(digits.X)


def accuracy(mixture: Any, digits: Digits) -> float:
    """Share of test images whose label is the majority label of their cluster."""
    cluster = mixture.predict(digits.X_test)
    right = 0
    for k in np.unique(cluster):
        inside = digits.labels_test[cluster == k]
        right += np.bincount(inside).max()
    return right / len(cluster)
