"""Stacked bars: what parts a total is made of, one bar a row."""

from __future__ import annotations

from collections.abc import Mapping

from .style import COLOURS, FAINT, GRID, INK, document, text

WIDTH, RIGHT, TOP, ROW, BAR = 760, 80, 74, 34, 22
LETTER = 7.3  # pixels a letter of the text takes, at most


def stacked_bars(title: str, rows: Mapping[str, Mapping[str, float]], unit: str = "s") -> str:
    """Draw bars.

    Parameters
    ----------
    title : str
    rows : mapping of a row's name to its parts
        Parts are drawn in the order of the first row; a part a row lacks is nothing.
    unit : str
        Written after each total.
    """
    names = list(dict.fromkeys(name for parts in rows.values() for name in parts))
    longest = max((sum(parts.values()) for parts in rows.values()), default=0) or 1
    left = round(26 + LETTER * max((len(name) for name in rows), default=0))
    room = WIDTH - left - RIGHT
    height = TOP + ROW * len(rows) + 12
    drawn = [text(16, 26, title, 15, **{"font-weight": "600"})]
    x = 16.0
    for number, name in enumerate(names):
        drawn.append(f"<rect x='{x:.1f}' y='42' width='11' height='11' fill='{COLOURS[number % len(COLOURS)]}'/>")
        drawn.append(text(x + 15, 52, name, 11.5, colour=FAINT))
        x += 28 + LETTER * len(name)
    for number, (row, parts) in enumerate(rows.items()):
        top = TOP + ROW * number
        drawn.append(text(left - 10, top + 15.5, row, 12, "end", INK))
        drawn.append(f"<rect x='{left}' y='{top}' width='{room}' height='{BAR}' fill='{GRID}' opacity='.35'/>")
        x = float(left)
        for colour, name in enumerate(names):
            part = parts.get(name, 0.0)
            wide = room * part / longest
            drawn.append(
                f"<rect x='{x:.2f}' y='{top}' width='{wide:.2f}' height='{BAR}' "
                f"fill='{COLOURS[colour % len(COLOURS)]}'><title>{name}: {part:.3g} {unit}</title></rect>"
            )
            x += wide
        drawn.append(text(x + 6, top + 15.5, f"{sum(parts.values()):.3g} {unit}", 12, colour=INK))
    return document(WIDTH, height, drawn, title)
