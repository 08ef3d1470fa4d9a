"""The picture of what two runs read, by the number of words."""

from collections.abc import Callable, Sequence

from judge_eval.compare.comparison import CutsFound, ReadPoint

_WIDTH, _HEIGHT, _GAP, _LOW, _LEFT = 560, 180, 26, 70, 34


def curve_svg(cuts: CutsFound) -> str:
    """Draw both means by the words read, above the band of their difference, with a line at the common budget.

    Args:
        cuts: What was read; without a curve the picture is empty.
    """
    points = cuts.curve
    if len(points) < 2:
        return ""
    most = points[-1].words

    def x(words: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - 8) * words / most, 1)

    def high(value: float) -> float:
        return round(_HEIGHT - (_HEIGHT - 20) * value, 1)

    def low(value: float) -> float:
        return round(_HEIGHT + _GAP + _LOW / 2 - _LOW / 2 * value, 1)

    spans = [point for point in points if point.interval is not None]
    upper = [f"{x(p.words)},{low(p.interval[1])}" for p in spans if p.interval is not None]
    lower = [f"{x(p.words)},{low(p.interval[0])}" for p in spans if p.interval is not None]
    sides = (-5, 13) if points[-1].baseline >= points[-1].candidate else (13, -5)  # above the upper curve
    parts = [
        *(_line(_LEFT, high(value), _WIDTH, high(value), "grid") for value in (0, 0.5, 1)),
        *(_text(4, high(value) + 4, f"{value:g}") for value in (0, 0.5, 1)),
        _line(_LEFT, low(0), _WIDTH, low(0), "grid") + _text(4, low(0) + 4, "B − A"),
        f'<polygon class="band" points="{" ".join(upper + lower[::-1])}"/>',
        _steps(points, x, high, lambda p: p.baseline, "first"),
        _steps(points, x, high, lambda p: p.candidate, "second"),
        _steps(points, x, low, lambda p: p.difference, "change"),
        _text(_WIDTH - 24, high(points[-1].baseline) + sides[0], "A"),
        _text(_WIDTH - 24, high(points[-1].candidate) + sides[1], "B"),
        _text(_LEFT, _HEIGHT + 14, "0") + _text(_WIDTH - 34, _HEIGHT + 14, f"{most:,} words", "end"),
    ]  # fmt: skip
    if cuts.headline is not None:
        parts.append(_line(x(cuts.budget), 4, x(cuts.budget), _HEIGHT + _GAP + _LOW, "budget"))
    label = f"{cuts.curve_of} of A (solid) and B (dashed) by the words read, and their difference with its 95% interval"
    return (
        f'<svg class="wordcurve" role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {_HEIGHT + _GAP + _LOW}">'
        f"{''.join(parts)}</svg>"
    )


def _steps(
    points: Sequence[ReadPoint],
    x: Callable[[float], float],
    y: Callable[[float], float],
    value: Callable[[ReadPoint], float],
    kind: str,
) -> str:
    path = [f"M{x(points[0].words)} {y(value(points[0]))}"]
    path += [f"H{x(point.words)}V{y(value(point))}" for point in points[1:]]
    return f'<path class="{kind}" d="{"".join(path)}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'
