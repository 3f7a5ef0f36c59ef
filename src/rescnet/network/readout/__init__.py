"""The kernel readout: what the layers leave is regressed on all their features at once, by a Gaussian kernel.

The layers' heads are linear in their own features. Here an image is compared with every training image by the distance
of all its features, of all layers together, and the residual of the whole network is interpolated in that metric: one
symmetric system of as many equations as there are training images, solved once, in closed form. Beyond the paper.
"""

from ..history import ReadoutRecord
from .kernel import KernelReadout, fit_readout, views_of
from .loo_correction import SecondLook
from .memory import images_compared, readout_bytes, rows_at_a_time

__all__ = [
    "KernelReadout",
    "ReadoutRecord",
    "SecondLook",
    "fit_readout",
    "images_compared",
    "readout_bytes",
    "rows_at_a_time",
    "views_of",
]
