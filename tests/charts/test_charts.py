"""Charts are valid SVG whose shapes stand where the numbers say."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from rescnet.experiments.charts import Line, Mark, ladder_chart, line_chart, stacked_bars
from rescnet.experiments.charts.lines import HEIGHT, LEFT, RIGHT, WIDTH, _log_ticks, _ticks
from rescnet.experiments.charts.style import COLOURS

SVG = "{http://www.w3.org/2000/svg}"


def points(chart):
    return [
        [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
        for line in ElementTree.fromstring(chart).iter(f"{SVG}polyline")
    ]


def test_a_rung_goes_from_the_figure_before_it_to_its_own():
    drawn = ElementTree.fromstring(ladder_chart("t", [("a", 80.0), ("b", 84.0), ("c", 83.0)]))
    first, up, down = (r for r in drawn.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None)
    assert float(first.get("width")) == 3  # nothing before it
    ends = [float(r.get("x")) + float(r.get("width")) for r in (up, down)]
    assert ends[0] == pytest.approx(ends[1], abs=0.02) and up.get("fill") != down.get("fill")
    assert float(up.get("width")) - 3 == pytest.approx(4 * (float(down.get("width")) - 3), abs=0.05)


def test_bars_are_as_long_as_their_parts():
    drawn = ElementTree.fromstring(stacked_bars("a < b", {"x": {"one": 1.0, "two": 3.0}, "y": {"two": 2.0}}))
    bars = [r for r in drawn.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    one, two, none, other = (float(bar.get("width")) for bar in bars)
    assert two == pytest.approx(3 * one, abs=0.02) and other == pytest.approx(2 * one, abs=0.02) and none == 0
    assert float(bars[1].get("x")) == pytest.approx(float(bars[0].get("x")) + one, abs=0.02)


def test_lines_run_from_edge_to_edge_and_upwards():
    ((first, middle, last),) = points(line_chart("t", "x", "y", [Line("l", [(0, 0), (5, 5), (10, 10)])]))
    assert first[0] == LEFT and last[0] == WIDTH - RIGHT and first[1] > middle[1] > last[1]
    assert middle == pytest.approx(((first[0] + last[0]) / 2, (first[1] + last[1]) / 2), abs=0.11)


def test_a_logarithmic_axis_gives_every_decade_the_same_room():
    ((a, b, c),) = points(line_chart("t", "x", "y", [Line("l", [(1, 0), (10, 1), (100, 2)])], log_x=True))
    assert b[0] - a[0] == pytest.approx(c[0] - b[0], abs=0.11)
    assert _log_ticks(1, 100) == [1, 2, 5, 10, 20, 50, 100]


def test_long_lines_are_thinned_but_keep_their_end():
    ((*_, last),) = points(line_chart("t", "x", "y", [Line("l", [(float(i), 1.0 * i) for i in range(5001)])]))
    assert last[0] == WIDTH - RIGHT


def test_marks_and_odd_ranges():
    chart = line_chart("t", "x", "y", [Line("flat", [(3, 7)])], [Mark("paper", 3, 7)])
    assert "paper" in chart and len(points(chart)[0]) == 1
    cut = points(line_chart("t", "x", "y", [Line("l", [(0, 0), (1, 100)])], y_range=(50, 90)))[0]
    assert all(0 < y < HEIGHT for _, y in cut)
    assert "nothing measured" in line_chart("t", "x", "y", [])
    assert _ticks(0, 1, 5) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]


def test_names_of_marks_do_not_lie_on_each_other():
    marks = [Mark(f"m{n}", 50 + n / 10, 5) for n in range(4)]
    chart = line_chart("t", "x", "y", [Line("l", [(0, 0), (100, 10)])], marks)
    heights = [float(t.get("y")) for t in ElementTree.fromstring(chart).iter(f"{SVG}text") if t.text.startswith("m")]
    assert len(heights) == 4 and min(np.diff(sorted(heights))) >= 13


def test_names_of_marks_stay_beside_them_where_there_is_room():
    marks = [Mark("m", x, 5) for x in (20, 30, 40)]
    drawn = ElementTree.fromstring(line_chart("t", "x", "y", [Line("l", [(0, 0), (100, 10)])], marks))
    tops = {float(p.get("d").split()[1].split("l")[0]) for p in drawn.iter(f"{SVG}path")}
    heights = {float(t.get("y")) for t in drawn.iter(f"{SVG}text") if t.text == "m"}
    assert len(tops) == len(heights) == 1 and abs(tops.pop() - heights.pop()) < 6


def test_a_mark_s_name_does_not_lie_on_another_mark():
    marks = [Mark("a long name", 20, 5), Mark("m", 27, 5.2)]
    drawn = ElementTree.fromstring(line_chart("t", "x", "y", [Line("l", [(0, 0), (100, 10)])], marks))
    (height,) = (float(t.get("y")) for t in drawn.iter(f"{SVG}text") if t.text == "a long name")
    tops = [float(p.get("d").split()[1].split("l")[0]) for p in drawn.iter(f"{SVG}path")]  # 12 pixels high
    assert height - 9 > tops[1] + 12 or height < tops[1]


def legend(chart):
    (box,) = (r for r in ElementTree.fromstring(chart).iter(f"{SVG}rect") if r.get("opacity") == ".85")
    top = float(box.get("y"))
    return top, top + float(box.get("height"))


def test_the_legend_lies_low_unless_it_would_hide_something():
    low, high = (Line("l", [(float(x), y) for x in range(101)]) for y in (0.5, 9.5))
    for lines, marks in (([high], []), ([low, high], []), ([high], [Mark("m", 95, 0.5)])):
        chart = line_chart("t", "x", "y", lines, marks, y_range=(0, 10))
        top, bottom = legend(chart)
        across = [y for line in points(chart) for _, y in line]
        names = [float(t.get("y")) for t in ElementTree.fromstring(chart).iter(f"{SVG}text") if t.text == "m"]
        assert not any(top <= y <= bottom for y in across + names), (len(lines), len(marks))
    assert legend(line_chart("t", "x", "y", [high], y_range=(0, 10)))[1] > HEIGHT * 0.8


def test_the_legend_lies_below_the_picture_where_there_is_no_room_within():
    everywhere = Line("l", [(float(x), float(y)) for x in range(101) for y in range(11)])
    chart = line_chart("t", "x", "y", [everywhere, everywhere], y_range=(0, 10))
    top, bottom = legend(chart)
    *_, height = ElementTree.fromstring(chart).get("viewBox").split()
    others = [float(t.get("y")) for t in ElementTree.fromstring(chart).iter(f"{SVG}text") if t.text != "l"]
    assert top > max(others) and bottom <= float(height)


def test_lines_without_a_name_are_not_in_the_legend():
    named, nameless = Line("one", [(0, 0), (1, 1)], colour=0), Line("", [(0, 1), (1, 0)], dashed=True, colour=0)
    top, bottom = legend(line_chart("t", "x", "y", [named, nameless]))
    assert bottom - top == pytest.approx(17 + 9)


def test_the_legend_has_the_colours_of_the_lines_and_the_first_lies_on_top():
    lines = [Line(name, [(0, 0), (1, 1)]) for name in ("", "one", "two")]
    drawn = ElementTree.fromstring(line_chart("t", "x", "y", lines))
    *named, first = (line.get("stroke") for line in drawn.iter(f"{SVG}polyline"))  # a later one hides those before
    assert first == COLOURS[0]
    assert [line.get("stroke") for line in drawn.iter(f"{SVG}line") if line.get("stroke-width") == "2"] == named[::-1]
