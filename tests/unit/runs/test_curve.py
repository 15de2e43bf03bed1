"""Curves: points where they belong, texts escaped."""

from __future__ import annotations

from xml.etree import ElementTree

from dredge.runs.curve import place_curve, render_curve

SVG = "{http://www.w3.org/2000/svg}"


def test_a_curve_is_drawn_through_its_points_and_its_texts_are_escaped() -> None:
    curve = place_curve([(1, 0, "<none>"), (3, 50, "half"), (5, 100, "all")], "a & b", "days", str)
    picture = ElementTree.fromstring(render_curve(curve))
    (line,) = picture.iter(f"{SVG}polyline")
    xs, ys = zip(*(map(float, point.split(",")) for point in line.attrib["points"].split()), strict=True)
    assert xs == (90, 355, 620)
    assert ys == (204, 110, 16)
    assert [title.text for title in picture.iter(f"{SVG}title")] == ["a & b", "<none>", "half", "all"]
