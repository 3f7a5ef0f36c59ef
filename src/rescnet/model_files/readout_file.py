"""A kernel readout as safetensors bytes, and back."""

from __future__ import annotations

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from ..network.readout import KernelReadout, SecondLook
from .errors import ModelFileError
from .layout import COPY_AGAIN

SECOND_LOOK = ("centres", "coefficients")  # what a second look is


def readout_to_bytes(readout: KernelReadout) -> bytes:
    """Return a readout, with the training images it compares with, as the bytes of a safetensors file."""
    tensors = {
        "images": readout.images,
        "coefficients": readout.coefficients,
        "scale": torch.tensor(readout.scale, dtype=torch.float64),
        "mirrored": torch.tensor(readout.mirrored),
        "ridge": torch.tensor(readout.ridge, dtype=torch.float64),
    }
    if readout.second_look is not None:
        tensors |= {f"second_look.{part}": getattr(readout.second_look, part) for part in SECOND_LOOK}
    return bytes(save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}))


def readout_from_bytes(data: bytes, name: str, image_shape: tuple[int, int, int], classes: int) -> KernelReadout:
    """Return the readout in the bytes of the file ``name``, checked against what the network takes and gives."""
    try:
        tensors = load(data)
        images, coefficients = tensors["images"], tensors["coefficients"]
        scale, mirrored, ridge = (tensors[name].item() for name in ("scale", "mirrored", "ridge"))
        look = None
        if any(key.startswith("second_look.") for key in tensors):
            look = SecondLook(*(tensors[f"second_look.{part}"] for part in SECOND_LOOK))
        readout = KernelReadout(images, coefficients, scale, bool(mirrored), ridge, look)
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise ModelFileError(f"{name} is not a readout of rescnet ({error}): {COPY_AGAIN}.") from None
    if tuple(images.shape[1:]) != image_shape or tuple(coefficients.shape) != (len(images), classes):
        raise ModelFileError(
            f"{name} has images {tuple(images.shape)} and coefficients {tuple(coefficients.shape)} where the network "
            f"takes {image_shape} and has {classes} classes: {COPY_AGAIN}."
        )
    if look and not (look.centres.shape == look.coefficients.shape == (len(look.centres), classes)):
        raise ModelFileError(
            f"{name} looks twice at {tuple(look.centres.shape)} outputs with {tuple(look.coefficients.shape)} "
            f"coefficients where the network has {classes} classes: {COPY_AGAIN}."
        )
    return readout
