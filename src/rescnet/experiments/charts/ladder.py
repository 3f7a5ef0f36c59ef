"""A ladder: a figure as it changes step by step, one rung a change."""

from __future__ import annotations

from collections.abc import Sequence

from .style import COLOURS, FAINT, GRID, INK, document, text

WIDTH, RIGHT, TOP, ROW, BAR = 760, 130, 50, 30, 14
LETTER = 7.0  # pixels a letter of the text takes, at most


def ladder_chart(title: str, rungs: Sequence[tuple[str, float]], unit: str = "%") -> str:
    """Draw rungs from top to bottom, each a bar from the figure before it to its own.

    Parameters
    ----------
    title : str
    rungs : sequence of (what was changed, the figure then)
    unit : str
        Of the figures.
    """
    values = [value for _, value in rungs]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    margin = 0.08 * ((high - low) or 1.0)
    low, high = low - margin, high + margin
    left = round(26 + LETTER * max((len(name) for name, _ in rungs), default=0))
    room = WIDTH - left - RIGHT

    def across(value: float) -> float:
        return left + room * (value - low) / (high - low)

    drawn = [text(16, 26, title, 15, **{"font-weight": "600"})]
    before = values[0] if values else 0.0
    for number, (name, value) in enumerate(rungs):
        top = TOP + ROW * number
        middle = top + BAR / 2 + 4
        drawn.append(text(left - 10, middle, name, 12, "end", INK))
        drawn.append(f"<rect x='{left}' y='{top}' width='{room}' height='{BAR}' fill='{GRID}' opacity='.35'/>")
        colour = COLOURS[0] if value >= before else COLOURS[1]
        start, wide = across(min(before, value)), abs(across(value) - across(before))
        drawn.append(
            f"<rect x='{start - 1.5:.2f}' y='{top}' width='{wide + 3:.2f}' height='{BAR}' fill='{colour}'>"
            f"<title>{value:.2f} {unit}</title></rect>"
        )
        step = f"{value - before:+.2f}" if number else ""
        drawn.append(text(WIDTH - RIGHT + 12, middle, f"{value:.2f} {unit}", 12, colour=INK))
        drawn.append(text(WIDTH - 14, middle, step, 12, "end", FAINT))
        before = value
    return document(WIDTH, TOP + ROW * len(rungs) + 8, drawn, title)
