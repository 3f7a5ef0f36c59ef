"""A kernel readout as safetensors bytes, and back."""

from __future__ import annotations

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from ..network.readout import KernelReadout, LeaveOneOutCorrection
from .errors import ModelFileError
from .layout import COPY_AGAIN

CORRECTION = ("centres", "coefficients")  # tensors of a leave-one-out correction


def readout_to_bytes(readout: KernelReadout) -> bytes:
    """Return a readout, with the training images it compares with, as the bytes of a safetensors file."""
    tensors = {
        "images": readout.images,
        "coefficients": readout.coefficients,
        "scale": torch.tensor(readout.scale, dtype=torch.float64),
        "mirrored": torch.tensor(readout.mirrored),
        "ridge": torch.tensor(readout.ridge, dtype=torch.float64),
    }
    if readout.correction is not None:
        tensors |= {f"loo_correction.{part}": getattr(readout.correction, part) for part in CORRECTION}
    return bytes(save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}))


def readout_from_bytes(data: bytes, name: str, image_shape: tuple[int, int, int], classes: int) -> KernelReadout:
    """Return the readout in the bytes of the file ``name``, checked against what the network takes and gives."""
    try:
        tensors = load(data)
        images, coefficients = tensors["images"], tensors["coefficients"]
        scale, mirrored, ridge = (tensors[name].item() for name in ("scale", "mirrored", "ridge"))
        correction = None
        for prefix in ("loo_correction", "second_look"):  # the latter in format 1
            if any(key.startswith(f"{prefix}.") for key in tensors):
                correction = LeaveOneOutCorrection(*(tensors[f"{prefix}.{part}"] for part in CORRECTION))
        readout = KernelReadout(images, coefficients, scale, bool(mirrored), ridge, correction)
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise ModelFileError(f"{name} is not a readout of rescnet ({error}): {COPY_AGAIN}.") from None
    if tuple(images.shape[1:]) != image_shape or tuple(coefficients.shape) != (len(images), classes):
        raise ModelFileError(
            f"{name} has images {tuple(images.shape)} and coefficients {tuple(coefficients.shape)} where the network "
            f"takes {image_shape} and has {classes} classes: {COPY_AGAIN}."
        )
    if correction and not (
        correction.centres.shape == correction.coefficients.shape == (len(correction.centres), classes)
    ):
        raise ModelFileError(
            f"{name} must correct outputs of {classes} classes, got centres {tuple(correction.centres.shape)} and "
            f"coefficients {tuple(correction.coefficients.shape)}: {COPY_AGAIN}."
        )
    return readout
