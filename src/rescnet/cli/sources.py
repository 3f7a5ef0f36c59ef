"""Images of a command: loaded by the name of their source, or those that a model was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

if TYPE_CHECKING:
    from ..data import Dataset
    from ..model_files import ModelFolder


def load_source(source: str, root: Path | None, image_size: tuple[int, int] | None = None) -> Dataset:
    """Load a public data set, an image folder or an ``.npz`` file; a download shows its progress on stderr."""
    from ..data import load
    from ..progress import Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bar = Bar(Console(stderr=True), *columns)
    task = bar.add_task(f"downloading {source}", total=None)

    def show(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        return load(source, root, progress=show, image_size=image_size)
    finally:
        bar.stop()


def full_name(source: str) -> str:
    """Return the name of a public data set, or the absolute path of any other source."""
    from ..data.archives import PUBLIC_SETS

    return source if source in PUBLIC_SETS else str(Path(source).expanduser().resolve())


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
        raise ValueError(f"image size must be height and width in pixels, e.g. 32,32, got {text!r}.")
    return int(sides[0]), int(sides[1])


def check_classes(dataset: Dataset) -> None:
    """Raise ValueError if there are fewer than two classes, or a class has only one training image."""
    import numpy as np

    if len(dataset.class_names) < 2:
        raise ValueError(
            f"{dataset.name} must have at least two classes, got only {dataset.class_names[0]!r}. An image folder has "
            "one sub-folder per class."
        )
    counts = np.bincount(dataset.train.labels, minlength=len(dataset.class_names))
    if single := np.flatnonzero(counts == 1).tolist():
        others = f" and for {len(single) - 1} more" if len(single) > 1 else ""
        raise ValueError(
            f"each class of {dataset.name} must have at least two training images, got one for "
            f"{dataset.class_names[single[0]]!r}{others}. Add images, or leave the class out."
        )


def check_limit(dataset: Dataset, limit: int | None) -> None:
    """Raise ValueError if a limit leaves fewer than two training images per class."""
    import numpy as np

    classes = len(np.unique(dataset.train.labels))
    if limit is not None and limit < min(2 * classes, len(dataset.train)):
        raise ValueError(f"limit must be at least {2 * classes} with {classes} classes, got {limit}.")


def dataset_of(
    model: ModelFolder, source: str | None = None, root: Path | None = None, resize: bool = False
) -> tuple[Dataset, bool]:
    """Load images for a model: those it was trained on, with the same validation images, or others.

    Parameters
    ----------
    model : ModelFolder
    source : str, optional
        Default: the source that the model was trained on.
    root : Path, optional
        Folder of the public data sets.
    resize : bool
        Resize the images of a folder to the size that the model expects.

    Returns
    -------
    dataset : Dataset
    own : bool
        Whether the model was trained on this source.
    """
    from ..data.splits import hold_out_images

    trained_on = model.about.get("source")
    if source is None and not trained_on:
        raise ValueError(
            f"images must be named: {model.path} does not record what it was trained on. Name a data set, a folder or "
            "an .npz file."
        )
    chosen = str(source or trained_on)
    own = full_name(chosen) == trained_on
    if own and root is None and model.about.get("root"):
        root = Path(model.about["root"])
    size = model.image_shape[1:] if resize else parse_size(model.about.get("image_size")) if own else None
    if source is None and Path(chosen).is_absolute() and not Path(chosen).exists():
        raise ValueError(f"the training images of {model.path} must exist, got {chosen}. Name their new place.")
    dataset = load_source(chosen, root, size)
    _check_shape(dataset, model, Path(full_name(chosen)).is_dir())
    held_out = model.about.get("held_out") if own else None
    if held_out:
        dataset = hold_out_images(dataset, held_out["fraction"], held_out["limit"], held_out["seed"])
    return dataset, own


def check_held_out(dataset: Dataset, about: dict[str, Any]) -> None:
    """Raise ValueError if the validation images are not those of the training; it may have used some of them."""
    from ..data.splits import fingerprint

    expected = (about.get("held_out") or {}).get("sha256")
    if expected and fingerprint(dataset.validation) != expected:
        raise ValueError(
            f"{dataset.name} must not have changed since training: its validation images are not known any more. "
            "Evaluate on other images."
        )


def _check_shape(dataset: Dataset, model: ModelFolder, folder: bool) -> None:
    if dataset.shape != model.image_shape:
        theirs, ours = (
            f"{height}×{width} {'grey' if channels == 1 else 'colour'}"
            for channels, height, width in (dataset.shape, model.image_shape)
        )
        hint = " Use --resize." if folder and dataset.shape[0] == model.image_shape[0] else ""
        raise ValueError(f"{dataset.name} must have {ours} images for this model, got {theirs} ones.{hint}")
