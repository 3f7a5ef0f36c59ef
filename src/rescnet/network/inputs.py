"""Validation and conversion of user-supplied images and labels."""

from __future__ import annotations

import warnings
from itertools import permutations
from os import PathLike, fspath
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..base.errors import DataError

Array: TypeAlias = "Tensor | NDArray[Any]"


class InputWarning(UserWarning):
    """Warning about images or labels that are valid but probably a mistake."""


SEVERAL = 16  # images that are unlikely to be all dark by chance
USUAL_CHANNELS = (1, 3, 4)  # of arrays: grey, colour, colour with transparency
LARGEST_PIXEL = 1e15
CHUNK = 4096  # images that are checked together


def as_images(images: Any, shape: tuple[int, int, int] | None = None, name: str = "images") -> Tensor:
    """Return images as a tensor (n, channels, height, width), uint8 or floating, with values of any range.

    Integers other than uint8 become float32. ``shape`` (channels, height, width) is that of the training images.
    ValueError says if the images, by ``name``, are empty, of another shape, or not finite numbers.
    """
    first = images[0] if isinstance(images, list | tuple) and images else images
    if isinstance(first, str | PathLike):
        raise DataError(
            f"{name} must be an array or a tensor, got the path {fspath(first)!r}. Use Model.predict or "
            "ResCNetClassifier, which read image files."
        )
    tensor = _as_tensor(images, name)
    if shape is not None and tuple(tensor.shape) == shape:
        raise DataError(f"{name} must be a batch, got a single image of shape {shape}. Use images[None].")
    if tensor.dim() != 4:
        raise DataError(
            f"{name} must have shape (n, channels, height, width), got {tuple(tensor.shape)}. Grey images have one "
            "channel."
        )
    if tensor.numel() == 0:
        raise DataError(f"{name} must not be empty, got shape {tuple(tensor.shape)}.")
    if shape is not None and tuple(tensor.shape[1:]) != shape:
        raise DataError(
            f"{name} must have shape {shape} (channels, height, width), got {tuple(tensor.shape[1:])}. "
            f"{how_to_fit(tuple(tensor.shape[1:]), shape)}."
        )
    if shape is None and tensor.shape[3] in USUAL_CHANNELS and tensor.shape[1] >= max(5, 2 * tensor.shape[3]):
        raise DataError(
            f"{name} must have channels first, (n, channels, height, width), got {tuple(tensor.shape)}. Use "
            f"np.transpose(images, (0, 3, 1, 2))."
        )
    if tensor.is_floating_point():
        parts = torch.split(tensor, CHUNK)
        if bad := sum(int((~torch.isfinite(part)).flatten(1).any(1).sum()) for part in parts):
            raise DataError(f"{name} must have finite pixels, got NaN or infinity in {bad} of {len(tensor)} images.")
        if (largest := max(float(part.abs().max()) for part in parts)) > LARGEST_PIXEL:
            raise DataError(
                f"{name} must have pixels up to {LARGEST_PIXEL:g}, got {largest:.3g}. Scale them, e.g. to 0 … 255."
            )
    elif tensor.dtype != torch.uint8:
        tensor = tensor.to(torch.float32)
    return tensor


def as_labels(labels: Any, images: Tensor, classes: int | None = None, name: str = "labels") -> Tensor:
    """Return labels as int64 (n,), classes counted from 0; raise ValueError if they are not."""
    tensor = _as_tensor(labels, name)
    if tensor.dim() != 1 or len(tensor) != len(images):
        raise DataError(f"{name} must have shape ({len(images)},), one per image, got {tuple(tensor.shape)}.")
    if tensor.is_floating_point() and not bool((tensor == tensor.round()).all() & tensor.isfinite().all()):
        raise DataError(f"{name} must be whole numbers, the class of each image counted from 0.")
    tensor = tensor.to(torch.int64)
    if int(tensor.min()) < 0 or (classes is not None and int(tensor.max()) >= classes):
        rule = "at least 0" if classes is None else f"between 0 and {classes - 1}"
        raise DataError(f"{name} must be {rule}, got {int(tensor.min())} to {int(tensor.max())}.")
    if classes is None and int(tensor.max()) >= max(1000, 10 * len(tensor)):
        raise DataError(f"{name} must be numbered without gaps, got {int(tensor.max())} for {len(tensor)} images.")
    if classes is None and int(tensor.min()) == int(tensor.max()):
        raise DataError(f"{name} must have at least two classes, got only {int(tensor[0])}.")
    return tensor


def how_to_fit(given: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Return the remedy for images of another shape than the wanted one.

    Examples
    --------
    >>> how_to_fit((32, 32, 3), (3, 32, 32)), how_to_fit((28, 28), (32, 32))
    ('Use np.transpose(images, (0, 3, 1, 2))', 'Resize them')
    """
    if len(given) != len(wanted):
        return "Reshape them"
    for order in permutations(range(len(given))):
        if tuple(given[axis] for axis in order) == wanted:
            return f"Use np.transpose(images, {(0, *(axis + 1 for axis in order))})"
    sides_differ = sum(one != other for one, other in zip(sorted(given), sorted(wanted), strict=True))
    grey_or_colour = {min(given), min(wanted)} <= set(USUAL_CHANNELS) and min(given) != min(wanted)
    return "Convert grey to colour or back" if sides_differ == 1 and grey_or_colour else "Resize them"


def warn_of_other_units(images: Tensor, low: float, high: float) -> None:
    """Warn about images in other units than the training images, whose pixels are between low and high.

    The median of the images' maxima is compared: more than 10 times the training maximum, or, for 16 or more floating
    images, at most 1/8 of it; for fewer images, less in proportion, so 1/128 for one. Usually one of the two sets was
    divided by 255, or by another maximum from 10 on. Black images are ignored.
    """
    if not images.is_floating_point() and 10 * high >= 255:
        return
    largest = float(images.flatten(1).amax(1).median())
    dark = images.is_floating_point() and low >= 0 and 0 < 8 * largest * max(1, SEVERAL / len(images)) <= high
    divided = low >= 0 and high >= 10 and 0 < largest <= 1 and bool((images.frac() != 0).any())
    if divided or dark or 0 < 10 * max(high, -low) < largest:
        warnings.warn(
            f"images should be in the units of the training images, up to {high:.3g}, got {largest:.3g}."
            f"{' Do not scale them to 1.' if divided else ''}",
            InputWarning,
            stacklevel=3,
        )


def plain_values(values: Any, name: str = "images") -> Any:
    """Return values that NumPy can convert: tensors without their gradient, on the CPU.

    ValueError says if a value is masked, or a list holds images of unequal shape.
    """
    _refuse_unequal_shapes(values, name)
    parts = values if isinstance(values, list | tuple) else (values,)
    masked = sum(int(np.ma.getmaskarray(part).sum()) for part in parts if isinstance(part, np.ma.MaskedArray))
    if masked:
        raise DataError(f"{name} must have no masked values, got {masked}. Fill them, e.g. with filled(0).")
    if isinstance(values, Tensor):
        return _for_numpy(values)
    if isinstance(values, list | tuple) and any(isinstance(part, Tensor) for part in values):
        return [_for_numpy(part) if isinstance(part, Tensor) else part for part in values]
    return values


def _for_numpy(tensor: Tensor) -> Tensor:
    plain = tensor.detach().cpu()
    return plain.float() if plain.dtype == torch.bfloat16 else plain  # which NumPy does not have


def _refuse_unequal_shapes(values: Any, name: str = "images") -> None:
    """Raise ValueError for a list of images of unequal shape, naming the first that differs."""
    loose = isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1
    listed = (loose or isinstance(values, list | tuple)) and len(values) > 0
    if not listed or not isinstance(values[0], np.ndarray | Tensor):
        return
    first = np.shape(values[0])
    for index, value in enumerate(values):
        if np.shape(value) != first:
            raise DataError(
                f"{name} must be of equal shape, got {first} for number 0 and {np.shape(value)} for number {index}."
            )


def _as_tensor(values: Any, name: str) -> Tensor:
    if isinstance(values, Tensor):
        tensor = values.detach()
    elif isinstance(values, Dataset | DataLoader):
        raise DataError(
            f"{name} must be an array or a tensor, got a {type(values).__name__} of PyTorch. Only ResCNetClassifier "
            "reads these; stack the images, e.g. torch.stack([image for image, label in data])."
        )
    else:
        array = np.asarray(plain_values(values, name))
        if array.dtype.kind not in "buif":
            raise DataError(f"{name} must be whole or floating numbers, got type {array.dtype}.")
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:
            array = array.astype(np.int64)
        if array.dtype == np.longdouble or array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("=") if array.dtype.itemsize <= 8 else np.float64)
        tensor = _from_numpy(array, mapped=isinstance(values, np.memmap))
    if tensor.is_complex():
        raise DataError(f"{name} must be whole or floating numbers, got complex ones.")
    if tensor.dtype == torch.bool:
        tensor = tensor.to(torch.uint8)
    return tensor


def _from_numpy(array: NDArray[Any], mapped: bool) -> Tensor:
    """Return an array as a tensor, without a copy if it is writable or a memory-mapped file."""
    if array.flags.writeable:
        return torch.from_numpy(np.ascontiguousarray(array))
    if not mapped:
        return torch.tensor(np.ascontiguousarray(array))
    with warnings.catch_warnings(action="ignore"):  # about read-only memory: it is never written to
        return torch.from_numpy(np.ascontiguousarray(array))
