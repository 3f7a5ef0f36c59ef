"""What all charts share: colours that can be told apart, text, and the frame of an SVG file."""

from __future__ import annotations

from xml.sax.saxutils import escape

COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0")
INK, FAINT, GRID = "#1f2328", "#59636e", "#d8dee4"
FONT = "font-family='system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif'"


def text(
    x: float, y: float, words: str, size: float = 12, anchor: str = "start", colour: str = INK, **more: str
) -> str:
    """Return a piece of text at a point; ``anchor`` is start, middle or end."""
    extra = "".join(f" {name}='{value}'" for name, value in more.items())
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size:g}' text-anchor='{anchor}' fill='{colour}'{extra}>"
        f"{escape(words)}</text>"
    )


def document(width: float, height: float, parts: list[str], title: str) -> str:
    """Return a whole SVG file on white, readable in dark pages too."""
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' role='img' {FONT}>",
            f"<title>{escape(title)}</title>",
            f"<rect width='{width:g}' height='{height:g}' fill='#ffffff'/>",
            *parts,
            "</svg>",
            "",
        ]
    )
