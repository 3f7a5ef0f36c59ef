"""Lines over an axis, plain or logarithmic, with marks for single figures beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from .style import COLOURS, FAINT, GRID, INK, document, text

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 62, 24, 44, 50
MOST_POINTS = 600  # of a line; more are thinned out
LETTER, ROW = 6.6, 17  # of the legend: width of a letter, about, and height of a line


@dataclass(frozen=True)
class Line:
    """A line: points (x, y), whether it is dashed, and its name in the legend; without one it is not in there."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False
    colour: int | None = None


@dataclass(frozen=True)
class Mark:
    """A single figure: a diamond with a name at (x, y)."""

    name: str
    x: float
    y: float
    colour: int | None = None


def line_chart(
    title: str,
    x_name: str,
    y_name: str,
    lines: Sequence[Line],
    marks: Sequence[Mark] = (),
    log_x: bool = False,
    y_range: tuple[float, float] | None = None,
) -> str:
    """Draw lines, the first on top of the others; what lies outside ``y_range`` is cut off."""
    xs = [x for line in lines for x, _ in line.points] + [mark.x for mark in marks]
    ys = [y for line in lines for _, y in line.points] + [mark.y for mark in marks]
    if not xs:
        return document(WIDTH, HEIGHT, [text(16, 26, title, 15), text(16, 60, "nothing measured yet")], title)
    low_x, high_x = _span([x for x in xs if x > 0] or [1.0] if log_x else xs, log_x)
    low_y, high_y = y_range or _span(ys, False, 0.04)

    def across(x: float) -> float:
        if log_x:
            x, low, high = log10(max(x, low_x)), log10(low_x), log10(high_x)
        else:
            low, high = low_x, high_x
        return LEFT + (x - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def down(y: float) -> float:
        return TOP + (high_y - min(max(y, low_y), high_y)) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM)

    drawn = [text(16, 26, title, 15, **{"font-weight": "600"})]
    for tick in _log_ticks(low_x, high_x) if log_x else _ticks(low_x, high_x):
        drawn.append(
            f"<line x1='{across(tick):.1f}' x2='{across(tick):.1f}' y1='{TOP}' y2='{HEIGHT - BOTTOM}' stroke='{GRID}'/>"
        )
        drawn.append(text(across(tick), HEIGHT - BOTTOM + 16, f"{tick:g}", 11, "middle", FAINT))
    for tick in _ticks(low_y, high_y):
        drawn.append(
            f"<line x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{down(tick):.1f}' y2='{down(tick):.1f}' stroke='{GRID}'/>"
        )
        drawn.append(text(LEFT - 7, down(tick) + 4, f"{tick:g}", 11, "end", FAINT))
    drawn.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_name, 12, "middle", FAINT))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    drawn.append(text(16, middle, y_name, 12, "middle", FAINT, transform=f"rotate(-90 16 {middle:.1f})"))
    colours = [COLOURS[(n if line.colour is None else line.colour) % len(COLOURS)] for n, line in enumerate(lines)]
    coloured = [*zip(lines, colours, strict=True)]
    for line, colour in reversed(coloured):
        step = max(1, ceil(len(line.points) / MOST_POINTS))
        kept = [*line.points[::step], *([line.points[-1]] if (len(line.points) - 1) % step else [])]
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in kept)
        dash = " stroke-dasharray='5 4'" if line.dashed else ""
        drawn.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'{dash}/>")
    labels: list[tuple[float, float, float]] = []
    marked: list[tuple[float, float]] = []
    diamonds = [(across(mark.x), down(mark.y)) for mark in marks]
    for mark, (x, y) in zip(marks, diamonds, strict=True):
        colour = COLOURS[mark.colour % len(COLOURS)] if mark.colour is not None else INK
        drawn.append(f"<path d='M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z' fill='{colour}' stroke='#fff'/>")
        left, long = x > WIDTH - RIGHT - 150, LETTER * len(mark.name)
        start = x - 10 - long if left else x + 10
        height = _label_height(start, start + long, y, labels, diamonds)
        labels.append((start, start + long, height))
        drawn.append(text(x - 10 if left else start, height, mark.name, 11.5, "end" if left else "start", INK))
        marked += [(x, y), (x - 10 if left else start + long, height - 6)]
    shown = [(across(x), down(y)) for line in lines for x, y in line.points]
    named = [(line, colour) for line, colour in coloured if line.name]
    legend_left, first = _legend_place([line.name for line, _ in named], shown, marked)
    whole = max(HEIGHT, first + ROW * len(named))
    return document(WIDTH, whole, drawn + _legend(named, legend_left, first), title)


def _label_height(
    start: float,
    end: float,
    mark: float,
    labels: Sequence[tuple[float, float, float]],
    diamonds: Sequence[tuple[float, float]],
) -> float:
    """Return the height of a mark's name: above it, as near as other names and marks allow, else below."""

    def clear(height: float) -> bool:
        names = any(
            start < other_end and other < end and abs(height - taken) < 13 for other, other_end, taken in labels
        )
        return not names and not any(start - 6 < x < end + 6 and abs(height - 4 - there) < 10 for x, there in diamonds)

    above, below = ([mark + 6 + 14 * step for step in steps] for steps in ((-1, -2, -3), range(1, 20)))
    free = filter(clear, [*(height for height in above if height > TOP - 10), *below])
    return next(free, mark - 8)


def _legend_place(
    names: Sequence[str], shown: Sequence[tuple[float, float]], marked: Sequence[tuple[float, float]]
) -> tuple[float, int]:
    """Return left and first line of the legend: on the right, lowest where it hides no point; else below all."""
    left, height = WIDTH - RIGHT - _legend_width(names), ROW * len(names) + 9

    def hides(y: int) -> bool:
        top, bottom = y - 16, y - 16 + height
        a_mark = any(across >= left and top - 6 <= down <= bottom + 6 for across, down in marked)
        return a_mark or any(across >= left and top <= down <= bottom for across, down in shown)

    lowest = HEIGHT - BOTTOM - 14 - ROW * (len(names) - 1)
    free = (y for y in range(lowest, TOP + 15, -6) if not hides(y))
    return next(((left, y) for y in free), (LEFT, HEIGHT + 8))


def _legend_width(names: Sequence[str]) -> float:
    return max((LETTER * len(name) for name in names), default=0) + 44


def _legend(lines: Sequence[tuple[Line, str]], left: float, first: int) -> list[str]:
    """Draw the legend: a row a line, on nearly opaque white."""
    width, height = _legend_width([line.name for line, _ in lines]), ROW * len(lines) + 9
    drawn = [f"<rect x='{left:.1f}' y='{first - 16}' width='{width:.1f}' height='{height}' fill='#fff' opacity='.85'/>"]
    for number, (line, colour) in enumerate(lines):
        dash = " stroke-dasharray='5 4'" if line.dashed else ""
        here = first + ROW * number
        drawn.append(
            f"<line x1='{left + 6:.1f}' x2='{left + 30:.1f}' y1='{here - 4}' y2='{here - 4}' stroke='{colour}' "
            f"stroke-width='2'{dash}/>"
        )
        drawn.append(text(left + 36, here, line.name, 11.5, colour=INK))
    return drawn


def _span(values: Sequence[float], logarithmic: bool, margin: float = 0.0) -> tuple[float, float]:
    low, high = min(values), max(values)
    if low == high:
        return (low / 2, high * 2) if logarithmic else (low - 1, high + 1)
    room = 0.0 if logarithmic else margin * (high - low)
    return low - room, high + room


def _ticks(low: float, high: float, about: int = 7) -> list[float]:
    """Return round numbers between two others."""
    raw = (high - low) / about
    unit = 10 ** floor(log10(raw))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw)
    return [round(step * number, 10) for number in range(ceil(low / step), floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten between two numbers."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    return [float(f"{m}e{p}") for p in powers for m in (1, 2, 5) if low <= float(f"{m}e{p}") <= high]
