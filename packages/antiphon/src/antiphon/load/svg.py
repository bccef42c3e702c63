"""Line charts as SVG text, readable on light and dark grounds. Plain functions, no library."""

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

import msgspec

WIDTH, HEIGHT = 800, 340
# Names of lines stand right of the chart, where no line can cross them.
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 180, 40, 50
_COLORS = 8
# Strong enough on white and on near-black; told apart by lightness too.
_STYLE = """
svg { background: #ffffff; font: 12px system-ui, sans-serif; color-scheme: light dark }
text { fill: #222222 } .title { font-weight: 600; font-size: 14px }
.axis { stroke: #666666; fill: none } .grid { stroke: #dddddd; fill: none }
.line { fill: none; stroke-width: 2 } .key { stroke-width: 3 } .dot { stroke: none }
.c0 { stroke: #0062b8; fill: #0062b8 } .c1 { stroke: #c2410c; fill: #c2410c } .c2 { stroke: #15803d; fill: #15803d }
.c3 { stroke: #a21caf; fill: #a21caf } .c4 { stroke: #a16207; fill: #a16207 } .c5 { stroke: #0e7490; fill: #0e7490 }
.c6 { stroke: #be123c; fill: #be123c } .c7 { stroke: #525252; fill: #525252 }
path.line { fill: none }
@media (prefers-color-scheme: dark) {
svg { background: #16181c } text { fill: #e6e6e6 } .axis { stroke: #9a9a9a } .grid { stroke: #33363c }
.c0 { stroke: #6cb6ff; fill: #6cb6ff } .c1 { stroke: #ff9b6b; fill: #ff9b6b } .c2 { stroke: #6ddb8b; fill: #6ddb8b }
.c3 { stroke: #e79bf2; fill: #e79bf2 } .c4 { stroke: #f0c75e; fill: #f0c75e } .c5 { stroke: #67d5e8; fill: #67d5e8 }
.c6 { stroke: #ff8fa3; fill: #ff8fa3 } .c7 { stroke: #bdbdbd; fill: #bdbdbd }
path.line { fill: none }
}
"""
Points = Sequence[tuple[float, float]]


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """A label, and whether the scale is logarithmic (values at or below 0 are left out then)."""

    label: str
    log: bool = False


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Lines by name, each with its points in order."""

    title: str
    x: Axis
    y: Axis
    lines: dict[str, Points]


def ecdf(values: Sequence[float], *, most: int = 400) -> Points:
    """Which share of the values is at most x, in at most so many points."""
    ordered = sorted(values)
    count = len(ordered)
    places = range(count) if count <= most else sorted({round(at * (count - 1) / (most - 1)) for at in range(most)})
    return [(ordered[at], (at + 1) / count) for at in places]


def page(charts: Sequence[Chart]) -> str:
    """A whole SVG file, the charts below one another."""
    height = HEIGHT * max(len(charts), 1)
    bodies = "".join(f'<g transform="translate(0 {HEIGHT * at})">{_chart(chart)}</g>\n' for at, chart in enumerate(charts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">\n'
        f"<style>{_STYLE}</style>\n{bodies}</svg>\n"
    )


class _Scale:
    """Values to pixels."""

    def __init__(self, axis: Axis, values: Sequence[float], start: float, end: float) -> None:
        self.log = axis.log
        low, high = (min(values), max(values)) if values else (1.0, 10.0)
        if self.log:
            first = math.floor(math.log10(low) + 1e-9)
            last = max(math.ceil(math.log10(high) - 1e-9), first + 1)
            self.low, self.high = float(first), float(last)
            self.ticks = [10.0**at for at in range(first, last + 1)]
        else:
            low = min(low, 0.0)
            step = _nice_step((high - low) or 1.0)
            count = max(math.ceil((high - low) / step - 1e-9), 1)
            self.low, self.high = low, low + step * count
            self.ticks = [low + step * at for at in range(count + 1)]
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        value = math.log10(value) if self.log else value
        return self._start + (value - self.low) / (self.high - self.low) * (self._end - self._start)


def _nice_step(span: float) -> float:
    rough = span / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)


def _chart(chart: Chart) -> str:
    lines = {name: _kept(points, chart) for name, points in chart.lines.items()}
    across = _Scale(chart.x, [x for points in lines.values() for x, _ in points], _LEFT, WIDTH - _RIGHT)
    down = _Scale(chart.y, [y for points in lines.values() for _, y in points], HEIGHT - _BOTTOM, _TOP)
    out = [f'<text class="title" x="{_LEFT}" y="20">{escape(chart.title)}</text>']
    for tick in across.ticks:
        x = across.at(tick)
        out.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{HEIGHT - _BOTTOM}"/>')
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">{_number(tick)}</text>')
    for tick in down.ticks:
        y = down.at(tick)
        out.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>')
        out.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>')
    out.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}"/>')
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    out.append(f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{escape(chart.x.label)}</text>')
    out.append(f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {HEIGHT / 2})">{escape(chart.y.label)}</text>')
    for number, (name, points) in enumerate(lines.items()):
        out.append(_line(points, across, down, number))
        out.append(_key(name, number, len(lines)))
    return "\n".join(out)


def _kept(points: Points, chart: Chart) -> Points:
    return [
        (x, y)
        for x, y in points
        if math.isfinite(x) and math.isfinite(y) and (x > 0 or not chart.x.log) and (y > 0 or not chart.y.log)
    ]  # fmt: skip


def _line(points: Points, across: _Scale, down: _Scale, number: int) -> str:
    if not points:
        return ""
    places = [f"{across.at(x):.1f} {down.at(y):.1f}" for x, y in points]
    drawn = f'<path class="line c{number % _COLORS}" d="M{"L".join(places)}"/>'
    if len(points) <= 12:
        drawn += "".join(
            f'<circle class="dot c{number % _COLORS}" cx="{place.split()[0]}" cy="{place.split()[1]}" r="3"/>' for place in places
        )
    return drawn


def _key(name: str, number: int, count: int) -> str:
    y = _TOP + 8 + (16 if count <= 14 else 10) * number
    x = WIDTH - _RIGHT + 12
    return (
        f'<path class="key c{number % _COLORS}" d="M{x} {y - 4}h18"/>'
        f'<text x="{x + 24}" y="{y}">{escape(name)}</text>'
    )  # fmt: skip


def _number(value: float) -> str:
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-")
    return f"{value:,.6g}"
