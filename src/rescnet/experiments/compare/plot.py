"""The league as a picture: a line a model, best first, drawn by hand as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ...formatting import show_bytes, show_seconds
from .compare import Row

LINE, TOP, LEFT, WIDTH, RIGHT = 26, 54, 190, 420, 260  # pixels
NAME, OPTIONS = 23, 34  # letters that fit left of the lines, of a name and, smaller, of what was changed


def draw_league(rows: Sequence[Row], title: str) -> str:
    """Return an SVG picture: filled dots are measured here, hollow ones published; time and memory at the right."""
    done = sorted((row for row in rows if row.accuracy is not None), key=lambda row: -(row.accuracy or 0))
    if not done:
        raise ValueError("no model was measured, so there is nothing to draw: see the errors in the table.")
    values = [value for row in done for value in (row.accuracy, row.published) if value is not None]
    low = max(0.0, min(values) - 0.1 * (max(values) - min(values) or 0.1))
    high = min(1.0, max(values) + 0.05 * (max(values) - min(values) or 0.1))

    def x(value: float) -> float:
        return LEFT + WIDTH * (value - low) / ((high - low) or 1)

    height = TOP + LINE * len(done) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + RIGHT} {height}" font-size="13" '
        'font-family="system-ui, sans-serif" fill="#222">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="12" y="24" font-size="15" font-weight="600">{escape(title)}</text>',
        f'<text x="{LEFT + WIDTH + 24}" y="{TOP - 6}" fill="#666">accuracy · time · memory</text>',
    ]
    for step in range(5):
        value = low + (high - low) * step / 4
        parts.append(f'<path d="M{x(value):.1f} {TOP}V{height - 30}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{x(value):.1f}" y="{height - 12}" text-anchor="middle" fill="#666">{100 * value:.2f}</text>'
        )
    for number, row in enumerate(done):
        assert row.accuracy is not None
        y = TOP + LINE * (number + 0.6)
        name, _, options = row.model.partition(":")
        place = f'<text x="{LEFT - 12}" text-anchor="end"'
        parts.append(f'{place} y="{y + (1 if options else 4):.1f}">{escape(_short(name, NAME))}</text>')
        if options:
            words = escape(_short(options.replace(":", ", "), OPTIONS))
            parts.append(f'{place} y="{y + 11:.1f}" font-size="9" fill="#666">{words}</text>')
        parts.append(f'<path d="M{LEFT} {y:.1f}H{x(row.accuracy):.1f}" stroke="#9db8d9" stroke-width="2"/>')
        parts.append(f'<circle cx="{x(row.accuracy):.1f}" cy="{y:.1f}" r="5" fill="#2563a8"/>')
        if row.published is not None:
            ring = 'r="5" fill="none" stroke="#c2571a" stroke-width="2"'
            parts.append(f'<circle cx="{x(row.published):.1f}" cy="{y:.1f}" {ring}/>')
        words = f"{100 * row.accuracy:.2f} % · {show_seconds(row.seconds)} · {show_bytes(row.peak_memory)}"
        parts.append(f'<text x="{LEFT + WIDTH + 24}" y="{y + 4:.1f}">{words}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _short(words: str, letters: int) -> str:
    """Return what of some words fits beside a line."""
    return words if len(words) <= letters else f"{words[: letters - 1]}…"
