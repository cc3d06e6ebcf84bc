"""A table made by scikit-learn: 20 features, 10 classes, a fifth of the labels wrong. Big networks memorise it."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from discreet.data.samples import DataError, Samples

__all__ = ["load"]


def load(samples: int = 20_000, *, seed: int = 0) -> Samples:
    """Make the table.

    Ten features inform, five are mixtures of them, five are noise; one cluster a class; features are standardised.
    The labels that are wrong can only be learnt by heart.

    Args:
        samples: How many; the task is the same for every number of them, its samples are not.
        seed: Of the task and the samples.

    Raises:
        DataError: scikit-learn is not installed.

    Example:
        >>> load(100).x.shape
        (100, 20)
    """
    try:
        import sklearn
        from sklearn.datasets import make_classification
    except ImportError as error:
        raise DataError(
            "tab20 is made by scikit-learn, which is not installed: pip install 'discreet[compress]'"
        ) from error
    made: Any = make_classification(
        samples,
        n_features=20,
        n_informative=10,
        n_redundant=5,
        n_classes=10,
        n_clusters_per_class=1,
        flip_y=0.2,
        random_state=seed,
    )
    raw, y = made
    x = ((raw - raw.mean(axis=0)) / raw.std(axis=0)).astype(np.float32)
    y = y.astype(np.int64)
    return Samples(
        x,
        y,
        tuple(str(each) for each in range(10)),
        "tab20",
        {"x": hashlib.sha256(x.tobytes()).hexdigest(), "y": hashlib.sha256(y.tobytes()).hexdigest()},
        "made, no licence",
        f"sklearn.datasets.make_classification, scikit-learn {sklearn.__version__}",
        {"samples": samples},
    )
