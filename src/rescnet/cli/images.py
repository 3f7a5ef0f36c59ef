"""Images of a command: data sets by the name of their source, and a network's outputs in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from torch import Tensor

from ..base.errors import ConfigError, DataError
from ..base.progress import Bar
from ..data import Dataset, load
from ..data.archives import PUBLIC_SETS
from ..data.loading import parse_source, size_for
from ..data.splits import fingerprint, hold_out_images, join_validation
from ..network.network import Network
from ..saving import ModelFolder
from .shared import progress_bar, say

BATCH = 500  # images per step of the progress bar


def load_source(source: str, root: Path | None, image_size: tuple[int, int] | None = None, **fit: Any) -> Dataset:
    """Load a public data set, an image folder (``fit``: its channels, or strict) or an ``.npz`` file."""
    with progress_bar(f"downloading {source}") as downloaded, progress_bar("reading images") as read:
        return load(source, root, progress=downloaded, image_size=image_size, files_progress=read, **fit)


def say_notes(dataset: Dataset) -> None:
    """Print on stderr how an image folder was read."""
    for note in dataset.notes:
        say(Console(stderr=True), escape(note), style="dim")


def full_name(source: str) -> str:
    """Return the name of a public data set, or the absolute path of any other source; a split is kept."""
    whole, images = parse_source(source)
    name = str(whole) if whole in PUBLIC_SETS else str(Path(whole).expanduser().resolve())
    return name if images is None else f"{name}:{images}"


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Read a size given as H,W or HxW.

    Examples
    --------
    >>> parse_size("32,48"), parse_size("8x8"), parse_size(None)
    ((32, 48), (8, 8), None)
    """
    if text is None:
        return None
    sides = text.lower().replace("×", ",").replace("x", ",").split(",")
    if len(sides) != 2 or not all(side.strip().isdecimal() and int(side) > 0 for side in sides):
        raise DataError(f"image size must be height and width in pixels, e.g. 32,32, got {text!r}.")
    return int(sides[0]), int(sides[1])


def dataset_of(model: ModelFolder, source: str | None = None, root: Path | None = None) -> tuple[Dataset, bool]:
    """Load images for a model: by default those it was trained on, with the same validation images.

    The images of a folder are fitted to the size and the colour that the model expects. The second result is True if
    the model was trained on this source.
    """
    trained_on = model.about.get("source")
    if source is None and not trained_on:
        raise DataError(
            f"images must be named: {model.path} does not record what it was trained on. Name a data set, a folder or "
            "an .npz file."
        )
    chosen = str(source or trained_on)
    own = full_name(chosen) == trained_on
    if own and root is None and model.about.get("root"):
        root = Path(model.about["root"])
    place = Path(parse_source(chosen)[0])
    if source is None and place.is_absolute() and not place.exists():
        raise ConfigError(f"the training images of {model.path} must exist, got {chosen}. Name their new place.")
    dataset = load_source(chosen, root, **size_for(chosen, model.image_shape))
    if dataset.shape != model.image_shape:
        theirs, ours = (
            f"{height}×{width} {'grey' if channels == 1 else 'colour'}"
            for channels, height, width in (dataset.shape, model.image_shape)
        )
        raise ConfigError(f"{dataset.name} must have {ours} images for this model, got {theirs} ones.")
    held_out = model.about.get("held_out") if own else None
    if held_out:
        dataset = hold_out_images(dataset, held_out["fraction"], held_out["limit"], held_out["seed"])
        if model.about.get("refit"):
            dataset = join_validation(dataset)
    return dataset, own


def check_held_out(dataset: Dataset, about: dict[str, Any]) -> None:
    """Raise ValueError if the validation images are not those of the training; it may have used some of them."""
    expected = (about.get("held_out") or {}).get("sha256")
    if expected and fingerprint(dataset.validation) != expected:
        raise ConfigError(
            f"{dataset.name} must not have changed since training: its validation images are not known any more. "
            "Evaluate on other images."
        )


def outputs_of(network: Network, parts: Iterable[NDArray[Any]], total: int) -> Iterator[Tensor]:
    """Yield Ỹ of each batch of images on the CPU, shape (batch, classes), and show the progress."""
    columns = (TextColumn("  images"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(Console(stderr=True), *columns) as bar:
        task = bar.add_task("images", total=total)
        for part in parts:
            yield network.outputs(part).cpu()
            bar.advance(task, len(part))
