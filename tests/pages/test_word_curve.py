"""The picture of what is read by the number of words: each label stands at what it names, and none on another."""

import re

import pytest

from judge_eval.compare.comparison import CutsFound, ReadPoint
from judge_eval.pages.comparepage import curve_svg

_TEXT = re.compile(r'<text x="([\d.]+)" y="([\d.]+)"(?: text-anchor="(\w+)")?>([^<]*)</text>')
_LINE = re.compile(r'<line class="grid" x1="[\d.]+" y1="([\d.]+)"')
_SIZE = 11.0
"""Of the letters; none is wider than 0.65 of it."""


@pytest.mark.parametrize("ends", [(1, 0), (0, 1), (1, 1), (0, 0), (0.5, 0.5), (0.98, 1), (0.52, 0.5), (0.02, 0)])
@pytest.mark.parametrize("most", [20, 1_000, 500_000])
def test_labels_stand_at_what_they_name(ends: tuple[float, float], most: int) -> None:
    """A and B at the ends of their curves, numbers at their lines, inside the picture, and none over another."""
    half = [value / 2 for value in ends]
    points = tuple(
        ReadPoint(words=words, baseline=a, candidate=b, difference=b - a, interval=(b - a - 0.1, b - a + 0.1))
        for words, (a, b) in ((10, half), (most, ends))
    )
    cuts = CutsFound(
        candidate=1, differ=True, share=1, same=0, recut=20, sampled=False, median_words=(5, 9), curve=points,
        curve_of="ClaimRecall", headline="ClaimRecall@10w", budget=10,
    )  # fmt: skip
    svg = curve_svg(cuts)
    texts = {text: (float(x), float(y), anchor) for x, y, anchor, text in _TEXT.findall(svg)}
    first, second = (
        re.findall(rf'class="{kind}" d="M[\d.]+ [\d.]+H([\d.]+)V([\d.]+)"', svg)[0] for kind in ("first", "second")
    )
    for name, end in (("A", first), ("B", second)):
        x, y, _ = texts[name]
        assert 0 <= float(end[0]) - x <= 20
        assert 4 <= abs(float(end[1]) - y) <= 14
    assert (texts["A"][1] < texts["B"][1]) == (ends[0] >= ends[1])  # the upper curve's stands above
    lines = [float(y) for y in _LINE.findall(svg)]
    for line, name in zip(lines, ("0", "0.5", "1", "B − A"), strict=True):
        assert name == "0" or texts[name][1] == line + 4
    boxes = []
    for x, y, anchor, text in _TEXT.findall(svg):
        width = 0.65 * _SIZE * len(text)
        left = float(x) - (width if anchor == "end" else 0)
        boxes.append((left, left + width, float(y) - 0.75 * _SIZE, float(y)))
    assert all(left >= 0 and right <= 560 and top >= 0 and low <= 276 for left, right, top, low in boxes)
    for place, (left, right, top, low) in enumerate(boxes):
        for other in boxes[:place]:
            assert right <= other[0] or other[1] <= left or low <= other[2] or other[3] <= top
