"""The whole run as one still SVG, for readers without a script, and for print."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from typing import Any

from .columns import COLOURS, Columns
from .critical_path import Step
from .recording import Recording, Row, lane_title
from .text import duration, readable
from .utilisation import Utilisation

MOST_LANES = 60
WIDTH = 1000  # in the SVG's units, without the column of names


def ticks(length: float, most: int = 10) -> list[float]:
    """Return round numbers from 0 to `length`, about `most` of them at the most."""
    step = 10.0 ** math.floor(math.log10(max(length, 1e-9) / most))
    for factor in (1, 2, 5, 10):
        if length / (step * factor) <= most:
            return [step * factor * number for number in range(int(length / (step * factor) + 1e-9) + 1)]
    return [0.0]


class Still:
    """The whole run as one SVG: CPUs, critical path, lanes. Every shape is at least one unit wide."""

    LEFT, ROW, CPUS = 150, 16, 70

    def __init__(self, recording: Recording, used: Utilisation, steps: list[Step], columns: Columns):
        self.recording, self.used, self.steps, self.columns = recording, used, steps, columns
        self.length = max(recording.end - recording.start, 1e-6)
        self.scale = WIDTH / self.length
        self.lanes = recording.lanes[:MOST_LANES]
        self.top = self.CPUS + 50

    def x(self, at: float) -> int:
        """The x coordinate of a time, without the column of names."""
        return int((at - self.recording.start) * self.scale)

    def svg(self) -> Iterator[str]:
        """Yield the SVG element in pieces."""
        height = self.top + 22
        y_of: dict[Any, int] = {}
        node, heads = None, []
        for worker in self.lanes:
            if worker.node is not node:
                node = worker.node
                heads.append((node, height))
                height += 18
            y_of[worker] = height
            height += self.ROW
        hidden = len(self.recording.lanes) - len(self.lanes)
        yield (
            f'<svg class="still" viewBox="0 0 {self.LEFT + WIDTH + 10} {height + 26}" role="img" '
            'aria-label="All workers: CPUs in use over time, the critical path, and a lane for each worker">'
        )
        for at in ticks(self.length):
            x = self.LEFT + self.x(self.recording.start + at)
            yield f'<path class="grid" d="M{x} 14V{height}"/>'
            yield f'<text class="axis" x="{x + 3}" y="11">{escape(duration(at))}</text>'
        yield from self._cpus()
        yield f'<text class="lane" x="4" y="{self.top + 12}">critical path</text>'
        yield from self._path()
        for node, y in heads:
            head = " (head)" if node.is_head else ""
            yield f'<text class="node" x="4" y="{y + 13}">node {escape(node.name)}{head}</text>'
        for worker, y in y_of.items():
            yield f'<text class="lane" x="12" y="{y + 12}">{escape(readable(lane_title(worker), 24))}</text>'
            yield f'<path class="base" d="M{self.LEFT} {y + self.ROW - 1}h{WIDTH}"/>'
        yield from self._attempts(y_of)
        yield from self._chain(y_of)
        if hidden:
            yield f'<text class="lane" x="12" y="{height + 14}">and {hidden:,} more workers</text>'
        yield "</svg>"

    def _cpus(self) -> Iterator[str]:
        """The area of busy CPUs, the causes of idle CPUs stacked above it, and the line of all CPUs."""
        used, base = self.used, 20 + self.CPUS
        most = max([*used.capacity, *used.busy, 1e-9])
        width = WIDTH / len(used.busy)
        yield '<text class="lane" x="4" y="32">CPUs in use</text>'
        yield f'<text class="lane" x="4" y="46">of {max(used.capacity, default=0):g}</text>'
        below = [0.0] * len(used.busy)
        for name, layer in (("busy", used.busy), *((f"idle{cause}", idle) for cause, idle in enumerate(used.idle))):
            above = [low + part for low, part in zip(below, layer)]
            if sum(layer) > 0:
                upper = "".join(
                    f"L{self.LEFT + n * width:.0f} {base - value / most * self.CPUS:.1f}h{width:.1f}"
                    for n, value in enumerate(above)
                )
                lower = "".join(
                    f"L{self.LEFT + (n + 1) * width:.0f} {base - below[n] / most * self.CPUS:.1f}h-{width:.1f}"
                    for n in reversed(range(len(below)))
                )
                yield f'<path class="{name}" d="M{upper[1:]}{lower}z"/>'
            below = above
        line = "".join(
            f"L{self.LEFT + n * width:.0f} {base - value / most * self.CPUS:.1f}h{width:.1f}"
            for n, value in enumerate(used.capacity)
        )
        yield f'<path class="capacity" d="M{line[1:]}"/>'

    def _path(self) -> Iterator[str]:
        """The critical path as one lane; its steps leave no gap."""
        shapes: dict[str, list[str]] = {}
        drawn = 0
        begin, scale = self.recording.start, self.scale
        for step in self.steps:
            right = int((step.end - begin) * scale)
            if right > drawn or not drawn:
                kind = self._colour(step.row) if step.kind == "task" and step.row is not None else f"step-{step.kind}"
                left = max(self.x(step.start), drawn)
                right = max(right, left + 1)
                shapes.setdefault(kind, []).append(f"M{self.LEFT + left} {self.top}h{right - left}v14h-{right - left}z")
                drawn = right
        for kind, drawn_shapes in shapes.items():
            for part in kind.split("/"):
                yield f'<path class="{part}" d="{"".join(drawn_shapes)}"/>'

    def _colour(self, row: Row) -> str:
        """The CSS class of the row's colour; with a slash and the class of its texture, if it has one."""
        columns = self.columns
        number = columns.colour[columns.function_of(row)]
        return f"f{number % COLOURS}" + (f"/t{number // COLOURS}" if number >= COLOURS else "")

    def _attempts(self, y_of: dict[Any, int]) -> Iterator[str]:
        """A bar for each attempt, or for the first of several that share a unit of width; and a mark on every attempt
        that did not finish.
        """
        shapes: dict[str, list[str]] = {}
        now, height = self.recording.now, self.ROW - 3
        colours: dict[Any, str] = {}
        start, scale = self.recording.start, self.scale
        for worker, y in y_of.items():
            drawn = 0
            for row in self.recording.by_worker[worker]:
                right = int(((row.finished or now) - start) * scale)
                if right < drawn and not row.outcome:
                    continue
                left = int((row.leased - start) * scale)
                right = max(right, left + 1)
                if right > drawn:
                    left, drawn = max(left, drawn), right
                    colour = colours.get(row.spec)
                    if colour is None:
                        colour = colours[row.spec] = self._colour(row)
                    shapes.setdefault(colour, []).append(
                        f"M{self.LEFT + left} {y + 1}h{right - left}v{height}h-{right - left}z"
                    )
                if row.outcome:
                    wide = max(right - left, 2)
                    shapes.setdefault(f"mark o{row.outcome}", []).append(
                        f"M{self.LEFT + left} {y + 1}h{wide}v{height}h-{wide}z"
                    )
        for kind, listed in sorted(shapes.items()):
            for part in kind.split("/"):  # a colour, and a texture over it
                yield f'<path class="{part}" d="{"".join(dict.fromkeys(listed))}"/>'

    def _chain(self, y_of: dict[Any, int]) -> Iterator[str]:
        """The critical path as a line through the lanes."""
        points: list[tuple[int, int]] = []
        begin, scale = self.recording.start, self.scale
        last = None
        for kind, row, start, end in self.steps:
            y = y_of.get(row.worker) if kind == "task" and row is not None else None
            if y is not None:
                for point in (int((start - begin) * scale), y), (int((end - begin) * scale), y):
                    if point != last:
                        points.append(point)
                        last = point
        middle = self.ROW // 2
        if points and len(points) <= WIDTH:
            line = "L".join(f"{self.LEFT + x} {y + middle}" for x, y in points)
            yield f'<path class="chain" d="M{line}"/>'
        elif points:  # too many turns for a line: underline the attempts instead
            covered = dict.fromkeys(points)
            shape = "".join(f"M{self.LEFT + x} {y + self.ROW - 3}h1v2h-1z" for x, y in covered)
            yield f'<path class="underline" d="{shape}"/>'
