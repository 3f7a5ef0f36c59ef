"""PCANet and its relatives, made of the same stages as ResCNet: one frame, one estimator, one preset a member."""

from .classifier import FamilyClassifier
from .config import FamilyConfig, make_member, member_names
from .network import FamilyNetwork

__all__ = ["FamilyClassifier", "FamilyConfig", "FamilyNetwork", "make_member", "member_names"]
