"""ResCNet as a scikit-learn estimator."""

from .classifier import ResCNetClassifier

__all__ = ["ResCNetClassifier"]
