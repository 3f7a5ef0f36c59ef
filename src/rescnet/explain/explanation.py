"""Explanation of one prediction: output per layer, training images that count, and a map of the image per class."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]
TOP = 3  # classes in texts and figures
LINES = 6  # classes in the chart of the layers' outputs


@dataclass(frozen=True)
class Neighbour:
    """A training image that the readout compares with."""

    index: int  #: among the training images, in their order
    label: str
    similarity: float  #: the kernel's value: 1 for the same image, 0 for one that is far away
    share: float  #: coefficient times kernel value: its part of the predicted class's output
    file: str = ""  #: if the model knows it

    def __str__(self) -> str:
        return self.file or f"{self.label} (image {self.index})"


@dataclass(frozen=True)
class Part:
    """A summand of the outputs: that of the layers or that of the readout."""

    outputs: Numbers  #: (C,)
    maps: Numbers  #: (K, h, w), of the classes shown
    intercept: Numbers  #: (K,): the outputs less the sums of the maps, for an image without any correlation


@dataclass(frozen=True, repr=False)
class Explanation:
    """Reasons of one prediction.

    Maps have the shape of the image and add up: for each class shown, the sum of its map plus the intercept is its
    output. A pixel stands for the correlations of the filter responses there, so for its surroundings, which are larger
    in later layers.
    """

    image: NDArray[Any]  #: (channels, height, width)
    class_names: tuple[str, ...]
    outputs: Numbers  #: (C,)
    probabilities: Numbers  #: (C,)
    layer_outputs: Numbers  #: Ỹ after each layer, (layers, C)
    shown: tuple[int, ...]  #: K classes with a map: at most ten, largest output first
    layers: Part
    readout: Part | None  #: None if there is none
    nearest: tuple[Neighbour, ...] = ()  #: most similar first
    influential: tuple[Neighbour, ...] = ()  #: largest absolute share first

    @property
    def label(self) -> str:
        """Predicted class."""
        return self.class_names[self.shown[0]]

    @property
    def parts(self) -> dict[str, Part]:
        """Summands of the outputs by name."""
        return {"layers": self.layers} | ({} if self.readout is None else {"readout": self.readout})

    @property
    def maps(self) -> Numbers:
        """Share of each pixel in the outputs of the classes shown, (K, h, w)."""
        total: Numbers = np.sum([part.maps for part in self.parts.values()], axis=0)
        return total

    @property
    def intercept(self) -> Numbers:
        """Outputs of the classes shown less the sums of their maps, (K,)."""
        total: Numbers = np.sum([part.intercept for part in self.parts.values()], axis=0)
        return total

    @property
    def summands(self) -> Numbers:
        """Sum of the pixels for a class, of those against it, and intercept: their sum is its output, (K, 3)."""
        sums: Numbers = np.stack(
            [self.maps.clip(min=0).sum((1, 2)), self.maps.clip(max=0).sum((1, 2)), self.intercept], 1
        )
        return sums

    @property
    def changes(self) -> list[tuple[int, str]]:
        """Layers that changed the answer of the layers, each with the class from there on; the first always counts."""
        return [(layer, self.class_names[best]) for layer, best in answer_changes(self.layer_outputs)]

    def sentences(self) -> list[str]:
        """Return the explanation in words."""
        top = [f"{self.class_names[c]} ({100 * self.probabilities[c]:.1f} %)" for c in self.shown[:TOP]]
        sentences = [f"{top[0]}, before {' and '.join(top[1:])}."]
        changes = [f"layer {layer} changes it to {name}" for layer, name in self.changes[1:]]
        sentences.append(f"Layer 1 predicts {self.changes[0][1]}; {', '.join(changes) or 'no later layer changes it'}.")
        if self.readout:
            kept = self.label == self.changes[-1][1]
            verb = "keeps this answer" if kept else f"changes it to {self.label}"
            sentences.append(f"The readout corrects the layers' output and {verb}.")
        terms = " + ".join(f"{part.outputs[self.shown[0]]:.3f} ({name})" for name, part in self.parts.items())
        own, against, rest = self.summands[0]
        sentences.append(
            f"Output of {self.label}: {terms}. Pixels for it add {own:.3f}, pixels against it {against:.3f}, the "
            f"intercept {rest:.3f}."
        )
        for title, images in (("Nearest", self.nearest), ("Most influential", self.influential)):
            if images:
                sentences.append(f"{title} training images: {', '.join(map(str, images))}.")
        return sentences

    def __repr__(self) -> str:
        return "\n".join(["Explanation", *(f"  {sentence}" for sentence in self.sentences())])

    def plot(self) -> Figure:
        """Return a figure of the image, the maps of the first classes, and the outputs per layer; needs matplotlib.

        In a map, red pixels speak for the class, because they raise its output. Blue ones speak against it.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ConfigError("plot needs matplotlib. Use pip install matplotlib.") from None
        figure = plt.figure(figsize=(9, 5), layout="constrained")
        rows = figure.add_gridspec(2, 1)
        above, below = figure.add_subfigure(rows[0]), figure.add_subfigure(rows[1])
        picture, *maps = above.subplots(1, 1 + min(TOP, len(self.shown)))
        low, high = float(self.image.min()), float(self.image.max())
        pixels = np.moveaxis((self.image - low) / max(high - low, 1e-12), 0, 2)
        picture.imshow(pixels if pixels.shape[2] == 3 else pixels.mean(2), cmap="gray")
        picture.set_title(f"{self.label}, {100 * self.probabilities[self.shown[0]]:.0f} %", fontsize="medium")
        most = float(np.abs(self.maps[:TOP]).max()) or 1.0
        for axes, number, shares, parts in zip(maps, self.shown, self.maps, self.summands, strict=False):
            axes.imshow(pixels.mean(2), cmap="gray", alpha=0.25)
            axes.imshow(shares, cmap="RdBu_r", vmin=-most, vmax=most, alpha=0.8)
            own, against, rest = parts
            title = f"{self.class_names[number]}: {parts.sum():.2f}\nfor {own:+.2f}, against {against:+.2f}"
            axes.set_title(f"{title}\nintercept {rest:+.2f}", fontsize="small")
        for axes in (picture, *maps):
            axes.axis("off")
        layers, *others = below.subplots(1, 2 if self.nearest else 1, squeeze=False)[0]
        self._plot_layers(layers)
        for axes in others:
            self._plot_neighbours(axes)
        return figure

    def _plot_layers(self, axes: Axes) -> None:
        layers = np.arange(1, 1 + len(self.layer_outputs))
        ticks = layers[:: -(-len(layers) // 8)].tolist()
        for place, number in enumerate(self.shown[:LINES]):
            axes.plot(layers, self.layer_outputs[:, number], ".-", color=f"C{place}", label=self.class_names[number])
            if self.readout:
                axes.plot(layers[-1] + 1, self.outputs[number], "*", color=f"C{place}")
        if self.readout:
            axes.set_xticks([*ticks, layers[-1] + 1], [*map(str, ticks), "readout"])
        axes.set(xlabel="layer", ylabel="output")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize="small", frameon=False)

    def _plot_neighbours(self, axes: Axes) -> None:
        images = dict.fromkeys([*self.influential, *self.nearest])
        shares = [image.share for image in images]
        colours = ["tab:red" if share > 0 else "tab:blue" for share in shares]
        bars = axes.barh([str(image) for image in images], shares, color=colours)
        axes.bar_label(bars, fmt="%+.3f", padding=3, fontsize="x-small")
        axes.margins(x=0.2)
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.invert_yaxis()
        axes.set_xlabel(f"part of the output of {self.label} (red: for, blue: against)", fontsize="small")
        axes.set_title("training images: most influential, then nearest", fontsize="medium")
        axes.tick_params(axis="y", labelsize="small")
        axes.spines[["top", "right"]].set_visible(False)


def answer_changes(outputs: NDArray[Any]) -> list[tuple[int, int]]:
    """Return pairs of a layer, counted from 1, and the class predicted from there on, of outputs (layers, C).

    Examples
    --------
    >>> answer_changes(np.array([[0.1, 0.2], [0.3, 0.4], [0.6, 0.5]]))
    [(1, 1), (3, 0)]
    """
    best = outputs.argmax(1).tolist()
    return [(1, best[0]), *((layer, now) for layer, (before, now) in enumerate(pairwise(best), 2) if now != before)]
