"""Augmentations by name, e.g. ``"flip + shift 2 + rotate 10 + jitter 0.1"``."""

from __future__ import annotations

from dataclasses import dataclass

View = tuple[bool, int, int]
"""A view of an image: mirrored, pixels down, pixels right."""

LARGEST = {"flip": 1, "shift": 64, "rotate": 180, "jitter": 1}


@dataclass(frozen=True)
class Augmentation:
    """Random changes of copies of training images.

    Attributes
    ----------
    flip : bool
        Mirror every second copy, left to right.
    shift : int
        Largest shift in pixels, in each direction; the border is repeated.
    rotate : float
        Largest rotation in degrees, either way.
    jitter : float
        Largest relative change of contrast and of each channel.
    """

    flip: bool = False
    shift: int = 0
    rotate: float = 0.0
    jitter: float = 0.0

    @staticmethod
    def parse(text: str) -> Augmentation:
        """Read a list of changes.

        Examples
        --------
        >>> Augmentation.parse("flip + shift 2")
        Augmentation(flip=True, shift=2, rotate=0.0, jitter=0.0)
        """
        found: dict[str, float] = {}
        for term in text.split("+") if text.strip() else ():
            name, *amount = term.split() or [""]
            value = _amount(name, amount)
            if name in found:
                raise ValueError(f"augmentation must name each change once, got {name} twice in {text!r}.")
            if name in LARGEST and amount and value > LARGEST[name]:
                raise ValueError(f"{name} must be at most {LARGEST[name]}, got {value:g} in {text!r}.")
            if name not in LARGEST or value <= 0 or (name == "shift" and value % 1):
                raise ValueError(
                    f"augmentation must be a list, e.g. 'flip + shift 2 + rotate 10 + jitter 0.1', got {text!r}."
                )
            found[name] = value
        return Augmentation(
            "flip" in found, int(found.get("shift", 0)), found.get("rotate", 0.0), found.get("jitter", 0.0)
        )

    @property
    def is_random(self) -> bool:
        """True if two copies of an image can differ by more than a flip."""
        return bool(self.shift or self.rotate or self.jitter)

    def views(self) -> list[View]:
        """Return the views that predictions are averaged over; the unchanged image is the first."""
        if self.rotate or self.jitter:
            raise ValueError("test_views must be flips and shifts only. Leave rotate and jitter out.")
        ways = ((-1, 0), (1, 0), (0, -1), (0, 1)) if self.shift else ()
        places = [(0, 0), *((self.shift * down, self.shift * right) for down, right in ways)]
        return [(flip, *place) for flip in ((False, True) if self.flip else (False,)) for place in places]


def _amount(name: str, words: list[str]) -> float:
    """Return the number after a change's name; 1 for a flip, and 0 for what cannot be read."""
    if name == "flip":
        return float(not words)
    try:
        return float(words[0]) if len(words) == 1 else 0.0
    except ValueError:
        return 0.0
