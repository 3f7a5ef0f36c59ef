"""PCANet and its relatives, built from the stages of ResCNet: one estimator, and one preset per member."""

from .classifier import FamilyClassifier
from .config import FamilyConfig, make_member, member_names
from .network import FamilyNetwork

__all__ = ["FamilyClassifier", "FamilyConfig", "FamilyNetwork", "make_member", "member_names"]
