"""The page toolkit: contrast, escaping, and what happens to names that a template does not know."""

import base64
import hashlib
import re
from pathlib import Path

import jinja2
import numpy as np
import pytest

import dplan._html
from dplan._html import blocks, charts

STYLE = (Path(dplan._html.__file__).parent / "style.css").read_text(encoding="utf-8")
ATTACK = "<script>alert(1)</script>"


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def mixed(share, colour, page):
    """Lay a colour over the page's."""
    parts = [
        share * a + (1 - share) * int(page[i : i + 2], 16) for a, i in zip(colour, (1, 3, 5), strict=True)
    ]
    return "#" + "".join(f"{round(part):02x}" for part in parts)


def colours(scheme):
    """The colours of a scheme; the dark one and print start from the light one."""
    found = [
        dict(re.findall(r"--(\w+): (#\w{6})", part))
        for part in re.findall(r":root \{.*?\}", STYLE, re.DOTALL)
    ]
    light, dark, paper = found
    return {**light, **{"light": {}, "dark": dark, "print": paper}[scheme]}


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_text_and_marks_can_be_seen(scheme):
    found = colours(scheme)
    shade = tuple(map(int, re.search(r"--shade: (\d+) (\d+) (\d+)", STYLE).groups()))
    for surface in (found["page"], found["zone"]):
        assert contrast(found["ink"], surface) >= 4.5
        assert contrast(found["soft"], surface) >= 4.5
    assert contrast(found["ink"], mixed(0.55, shade, found["page"])) >= 4.5  # the darkest shade of a table
    marks = [name for name in found if re.fullmatch(r"[cm]\d|background|table|alert|axis", name)]
    assert len(marks) == 9 + 6 + 4
    for name in marks:
        assert contrast(found[name], found["page"]) >= 3, name
    assert "@media print" in STYLE


def test_every_class_that_charts_use_has_a_colour():
    for name in [f"c{i}" for i in range(charts.N_COLOURS)] + [f"m{i}" for i in range(charts._N_SHADES)]:
        assert re.search(rf"\.{name} {{ (--c|fill): var\(--{name}\); }}", STYLE)


def test_every_kind_of_block_escapes_its_text():
    chart = charts.line_chart(
        {"c0": charts.Line([1, 2], [3, 4])}, title=ATTACK, x_label=ATTACK, y_label=ATTACK
    )
    page = blocks.as_html(
        ATTACK,
        [
            blocks.Heading(ATTACK),
            blocks.Paragraph(ATTACK),
            blocks.Items([ATTACK]),
            blocks.Prose(
                f"{ATTACK}\n\n![a picture](http://127.0.0.1/x.png) [a link](http://127.0.0.1/)\n\n{ATTACK}"
            ),
            blocks.Tiles([(ATTACK, ATTACK)]),
            blocks.Grid([ATTACK], [[blocks.Entry(ATTACK, note=ATTACK, strong=True)]], caption=ATTACK),
            blocks.Figure(chart, table=blocks.Grid([ATTACK], [[blocks.Entry(ATTACK)]])),
            blocks.Figure(chart, ATTACK, title=ATTACK),
            blocks.Figures([blocks.Figure(charts.key({"c0": ATTACK}, cross=ATTACK), ATTACK)]),
            blocks.Code(ATTACK, ATTACK),
        ],
        contents=True,
    )
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 29 + 10
    assert not re.findall(r"(?:src|href)=[\"'](?!#|data:)|<img|url\(|@import", page)
    assert page.count("default-src 'none'") == 1


def test_an_interactive_page_runs_its_own_script_and_no_other():
    grid = blocks.Grid(
        [ATTACK], [[blocks.Entry(ATTACK, value=1.5)]] * 2, interactive=True, data=[{"name": f'"{ATTACK}'}] * 2
    )
    page = blocks.as_html("Report", [grid, blocks.Threshold([(0.5, 3, 1), (0.9, 1, 1)], 0, 10, 4)])
    (script,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "unsafe-inline" not in page.split("script-src")[1].split('"')[0]
    assert page.count("&lt;script&gt;") == 1 + 2 * 3  # the head; and each row's data, label and text
    assert 'data-steps="[[0.5,3,1],[0.9,1,1]]"' in page


def test_a_template_with_an_unknown_name_fails():
    with pytest.raises(jinja2.UndefinedError):
        blocks._template().environment.from_string("{{ nothing }}").render()


def test_no_label_of_an_axis_is_cut():
    for low, high in ((0.0, 1e5), (-123_456_789.0, 987_654_321.0), (0.00012345, 0.00012399), (-1e308, 1e308)):
        edges = np.linspace(low / 2, high / 2, 4) * 2
        for chart in (
            charts.histogram({"table": np.array([0.2, 0.3, 0.5])}, edges, title="t", percent=False),
            charts.line_chart(
                {"table": charts.Line([low, high], [low, high])}, title="t", x_label="", y_label=""
            ),
        ):
            found = re.findall(
                r'<text x="(.*?)" y=".*?" text-anchor="(\w+)" class="small">(.*?)</text>', chart
            )
            ticks = [(float(x), anchor, 5.8 * len(text)) for x, anchor, text in found if text]
            assert len(ticks) > 2
            for x, anchor, width in ticks:
                left = x - {"start": 0, "middle": width / 2, "end": width}[anchor]
                assert left >= -1, found
                assert left + width <= charts._WIDTH + 1, found


def test_axes_of_equal_or_extreme_ends_have_finite_places():
    for low, high in ((0.0, 0.0), (5.0, 5.0), (-1e308, 1e308), (1e-300, 2e-300), (-3.0, -3.0)):
        axis = charts.Axis(low, high, 0, 100)
        assert 0 <= axis(low) <= axis(high) <= 100
        assert all(-1 <= axis(tick) <= 101 for tick in axis.ticks(4))
