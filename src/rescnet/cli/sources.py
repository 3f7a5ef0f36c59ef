"""From the name of a source to its images; and from a model to the images it was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

if TYPE_CHECKING:
    from ..data import Dataset
    from ..model_files import ModelFolder


def load_source(source: str, root: Path | None, image_size: tuple[int, int] | None = None) -> Dataset:
    """Load a public set, an image folder or an ``.npz`` file; a download shows how far it is, on stderr."""
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
    """Return a source so that it means the same from any folder: a public set's name, or an absolute path."""
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
        raise ValueError(f"the image size is {text!r}: give height and width in pixels, as 32,32.")
    return int(sides[0]), int(sides[1])


def dataset_of(
    model: ModelFolder, source: str | None = None, root: Path | None = None, resize: bool = False
) -> tuple[Dataset, bool]:
    """Load images for a model: those it was trained on, with the same ones held out, or others.

    Parameters
    ----------
    model : ModelFolder
    source : str, optional
        By default what the model was trained on.
    root : Path, optional
        Folder of the public sets.
    resize : bool
        Resize the images of a folder to the model's size.

    Returns
    -------
    dataset : Dataset
    own : bool
        Whether these are the images the model was trained on.
    """
    from ..data.splits import hold_out_images

    trained_on = model.about.get("source")
    if source is None and not trained_on:
        raise ValueError(
            f"{model.path} does not say which images it was trained on: name a set, a folder or an .npz file."
        )
    chosen = str(source or trained_on)
    own = full_name(chosen) == trained_on
    if own and root is None and model.about.get("root"):
        root = Path(model.about["root"])
    size = model.image_shape[1:] if resize else parse_size(model.about.get("image_size")) if own else None
    if source is None and Path(chosen).is_absolute() and not Path(chosen).exists():
        raise ValueError(f"{chosen}, which {model.path} was trained on, is gone: say where the images are now.")
    dataset = load_source(chosen, root, size)
    _check_shape(dataset, model, Path(full_name(chosen)).is_dir())
    held_out = model.about.get("held_out") if own else None
    if held_out:
        dataset = hold_out_images(dataset, held_out["fraction"], held_out["limit"], held_out["seed"])
    return dataset, own


def check_held_out(dataset: Dataset, about: dict[str, Any]) -> None:
    """Refuse validation images other than those of the training: some may have been learnt from."""
    from ..data.splits import fingerprint

    expected = (about.get("held_out") or {}).get("sha256")
    if expected and fingerprint(dataset.validation) != expected:
        raise ValueError(
            f"{dataset.name} has changed since the model was trained, so the images held out then cannot be told from "
            "those it learnt: evaluate it on other images."
        )


def _check_shape(dataset: Dataset, model: ModelFolder, folder: bool) -> None:
    if dataset.shape != model.image_shape:
        theirs, ours = (
            f"{height}×{width} {'grey' if channels == 1 else 'colour'}"
            for channels, height, width in (dataset.shape, model.image_shape)
        )
        hint = "say --resize" if folder and dataset.shape[0] == model.image_shape[0] else "give it such images"
        raise ValueError(f"{dataset.name} has {theirs} images but the model takes {ours} ones: {hint}.")
