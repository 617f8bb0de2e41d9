"""The marks that our pictures are made of, and their colours."""

from __future__ import annotations

from html import escape

HOST, SWITCH, LINK = "#2b6cb0", "#5f6b7a", "#8b95a3"  # each stands out from white and from black
AGGREGATOR = "#b0562b"  # a switch that adds
RINGS = ("#2b6cb0", "#c77d18", "#1a8a5a", "#a3418f", "#7a6a00", "#c0392b")  # circuits, by the ring they are part of
NODE_PX = 22
_SMALLEST_FONT_PX = 6


def opening(width: int, height: int, label: str) -> str:
    """Return the tag that a picture begins with; it shrinks with the page that it is in."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="100%" '
        f'style="max-width:{width}px;height:auto" role="img" aria-label="{escape(label)}" '
        f'font-family="system-ui,sans-serif" font-size="12">'
    )


def label(x: float, y: float, text: str, *, middle: bool = False) -> str:
    """Draw words beside the marks, in the colour of the page's text, from (x, y) on or around it."""
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{anchor} fill="currentColor" opacity="0.75">{escape(text)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float, tip: str) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width:.1f}">'
        f"<title>{escape(tip)}</title></line>"
    )


def box_size(longest_name: int, room_px: float) -> tuple[float, float]:
    """Return (width, font size) of a node's box whose name has so many letters, where it has so much room."""
    width_px = min(14 + 7.5 * longest_name, room_px)
    return width_px, min(12.0, (width_px - 4) / (0.62 * longest_name))


def box(x: float, y: float, size: tuple[float, float], name: str, tip: str, colour: str, is_round: bool) -> str:
    """Draw a node around (x, y), with its name in it as far as that can be read at that size; the tooltip always has
    it."""
    width, font_px = size
    text = ""
    if font_px >= _SMALLEST_FONT_PX:
        text = (
            f'<text x="{x:.1f}" y="{y + font_px * 0.35:.1f}" text-anchor="middle" font-size="{font_px:.1f}" '
            f'fill="#fff">{escape(name)}</text>'
        )
    return (
        f"<g><title>{escape(tip)}</title>"
        f'<rect x="{x - width / 2:.1f}" y="{y - NODE_PX / 2:.1f}" width="{width:.1f}" height="{NODE_PX}" '
        f'rx="{min(width / 2, 11) if is_round else 3:.1f}" fill="{colour}"/>{text}</g>'
    )
