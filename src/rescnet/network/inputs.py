"""Validation and conversion of user-supplied images and labels."""

from __future__ import annotations

import warnings
from itertools import permutations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class InputWarning(UserWarning):
    """Images or labels that look like a mistake.

    The message is one sentence: what was found, with the value, and what to do. The command line prints it as it
    stands.
    """


SEVERAL = 16  # images that are not all dark by chance
USUAL_CHANNELS = (1, 3, 4)  # grey, colour, colour with transparency
LARGEST_PIXEL = 1e15
AT_A_TIME = 4096  # images that are looked at together


def as_images(images: Any, shape: tuple[int, int, int] | None = None, name: str = "images") -> Tensor:
    """Return images as a tensor (n, channels, height, width), uint8 or floating, or refuse them in one sentence.

    Parameters
    ----------
    images : Tensor or array
        Integers other than uint8 become float32; values may have any range.
    shape : (channels, height, width), optional
        What the network was trained on.
    """
    tensor = _as_tensor(images, name)
    if shape is not None and tuple(tensor.shape) == shape:
        raise ValueError(f"{name} are a single one, of shape {shape}: give a batch of one, as images[None].")
    if tensor.dim() != 4:
        raise ValueError(
            f"{name} have shape {tuple(tensor.shape)}: give (n, channels, height, width), one channel for grey images."
        )
    if tensor.numel() == 0:
        raise ValueError(f"{name} are empty, of shape {tuple(tensor.shape)}: give at least one image.")
    if shape is not None and tuple(tensor.shape[1:]) != shape:
        raise ValueError(
            f"{name} are of shape {tuple(tensor.shape[1:])} but the network takes {shape} "
            f"(channels, height, width): {how_to_fit(tuple(tensor.shape[1:]), shape)}."
        )
    if shape is None and tensor.shape[3] in USUAL_CHANNELS and tensor.shape[1] >= max(5, 2 * tensor.shape[3]):
        raise ValueError(
            f"{name} have shape {tuple(tensor.shape)}, with channels last: give (n, channels, height, width), as by "
            f"np.transpose(images, (0, 3, 1, 2))."
        )
    if tensor.is_floating_point():
        parts = torch.split(tensor, AT_A_TIME)
        if bad := sum(int((~torch.isfinite(part)).flatten(1).any(1).sum()) for part in parts):
            raise ValueError(f"{name} hold NaN or infinite pixels, in {bad} of {len(tensor)}: remove or repair them.")
        if (largest := max(float(part.abs().max()) for part in parts)) > LARGEST_PIXEL:
            raise ValueError(
                f"{name} have pixels as large as {largest:.3g}, too large to square: scale them, for instance to "
                f"0 … 255."
            )
    elif tensor.dtype != torch.uint8:
        tensor = tensor.to(torch.float32)
    return tensor


def as_labels(labels: Any, images: Tensor, classes: int | None = None, name: str = "labels") -> Tensor:
    """Return labels as int64 (n,), classes counted from 0, or refuse them in one sentence."""
    tensor = _as_tensor(labels, name)
    if tensor.dim() != 1 or len(tensor) != len(images):
        raise ValueError(f"{name} have shape {tuple(tensor.shape)} for {len(images)} images: give one label an image.")
    if tensor.is_floating_point() and not bool((tensor == tensor.round()).all() & tensor.isfinite().all()):
        raise ValueError(f"{name} are not whole numbers: give the class of each image, counted from 0.")
    tensor = tensor.to(torch.int64)
    if int(tensor.min()) < 0 or (classes is not None and int(tensor.max()) >= classes):
        limit = f" to {classes - 1}" if classes is not None else ""
        raise ValueError(
            f"{name} run from {int(tensor.min())} to {int(tensor.max())}: number the classes from 0{limit}."
        )
    if classes is None and int(tensor.max()) >= max(1000, 10 * len(tensor)):
        raise ValueError(
            f"{name} go up to {int(tensor.max())} for {len(tensor)} images: number the classes from 0, without gaps."
        )
    if classes is None and int(tensor.min()) == int(tensor.max()):
        raise ValueError(f"{name} hold one class only ({int(tensor[0])}): a classifier needs at least two.")
    if classes is None and (absent := (torch.bincount(tensor) == 0).nonzero().flatten().tolist()):
        first = ", ".join(map(str, absent[:3])) + (", …" if len(absent) > 3 else "")
        warnings.warn(
            f"{name} go up to {int(tensor.max())} but leave out {len(absent)} of these classes ({first}), which will "
            f"hardly ever be the answer: number the classes from 0, without gaps.",
            InputWarning,
            stacklevel=3,
        )
    return tensor


def how_to_fit(given: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Return what to do with images of one shape where another is wanted.

    Examples
    --------
    >>> how_to_fit((32, 32, 3), (3, 32, 32)), how_to_fit((28, 28), (32, 32))
    ('bring the axes into that order, as by np.transpose(images, (0, 3, 1, 2))', 'resize them')
    """
    if len(given) != len(wanted):
        return "give them so"
    for order in permutations(range(len(given))):
        if tuple(given[axis] for axis in order) == wanted:
            return f"bring the axes into that order, as by np.transpose(images, {(0, *(axis + 1 for axis in order))})"
    sides_differ = sum(one != other for one, other in zip(sorted(given), sorted(wanted), strict=True))
    grey_or_colour = {min(given), min(wanted)} <= set(USUAL_CHANNELS) and min(given) != min(wanted)
    return "convert them to as many channels" if sides_differ == 1 and grey_or_colour else "resize them"


def warn_of_other_units(images: Tensor, low: float, high: float) -> None:
    """Warn of images whose values are not in the units of the training images, which were from low to high.

    So are floating images divided by 255, all but black to a network that was not given such; pixels of 0 to 255 for
    one that was; and any of which half are brighter than ten times what it knows, or, of several, darker than an
    eighth. Black images, a few dark ones, and a bright one among the dark are left alone.
    """
    if not images.is_floating_point() and 10 * high >= 255:
        return
    largest = float(images.flatten(1).amax(1).median())
    dark = images.is_floating_point() and low >= 0 and 0 < 8 * largest <= high and len(images) >= SEVERAL
    divided = low >= 0 and high >= 100 and 0 < largest <= 1 and bool((images.frac() != 0).any())
    if divided or dark or 0 < 10 * max(high, -low) < largest:
        warnings.warn(
            f"images reach {largest:.3g} and those the network was trained on {high:.3g}: give them in the same units"
            f"{', not divided by 255' if divided else ''}.",
            InputWarning,
            stacklevel=3,
        )


def refuse_unequal_shapes(values: Any, name: str = "images") -> None:
    """Refuse a list of images of unequal shape, and name the first that differs; anything else is left alone."""
    loose = isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1
    listed = (loose or isinstance(values, list | tuple)) and len(values) > 0
    if not listed or not isinstance(values[0], np.ndarray | Tensor):
        return
    first = np.shape(values[0])
    for index, value in enumerate(values):
        if np.shape(value) != first:
            raise ValueError(
                f"{name} are of unequal shape, number {index} is {np.shape(value)} and number 0 is {first}: bring all "
                f"to one size."
            )


def _as_tensor(values: Any, name: str) -> Tensor:
    if isinstance(values, Tensor):
        tensor = values.detach()
    else:
        refuse_unequal_shapes(values, name)
        array = np.asarray(values)
        if array.dtype.kind not in "buif":
            raise ValueError(f"{name} are of type {array.dtype}: give whole or floating numbers.")
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:
            array = array.astype(np.int64)
        if array.dtype == np.longdouble or array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("=") if array.dtype.itemsize <= 8 else np.float64)
        tensor = _from_numpy(array, mapped=isinstance(values, np.memmap))
    if tensor.is_complex():
        raise ValueError(f"{name} are complex numbers: give whole or floating numbers.")
    if tensor.dtype == torch.bool:
        tensor = tensor.to(torch.uint8)
    return tensor


def _from_numpy(array: NDArray[Any], mapped: bool) -> Tensor:
    """Return an array as a tensor, without a copy if it may be written to, or is a file mapped into memory."""
    if array.flags.writeable:
        return torch.from_numpy(np.ascontiguousarray(array))
    if not mapped:
        return torch.tensor(array)
    with warnings.catch_warnings(action="ignore"):  # that it must not be written to; nobody does
        return torch.from_numpy(np.ascontiguousarray(array))
