"""The colours of functions can be told apart, under every kind of colour blindness, and labels can be read on them."""

from __future__ import annotations

import math
import re
from itertools import combinations

import pytest

from miniray.observe.timeline.columns import COLOURS, TEXTURES
from miniray.observe.timeline.page import own_file

Colour = tuple[float, float, float]
NOT_DIFFERENT = 10.0  # CIE76: people hardly tell colours apart that are nearer

# How people without one kind of cone see linear RGB: Machado, Oliveira and Fernandes 2009, severity 1.
VISIONS = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "deuteranopia": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "tritanopia": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}


def palettes() -> dict[str, list[Colour]]:
    """The eight colours and the colour of labels, in the light, in the dark and on paper."""
    style = own_file("page.css")
    found = {}
    for name, block in zip(("light", "dark", "paper"), re.findall(r":root \{(.*?)\}", style, re.S)):
        values = dict(re.findall(r"--(f\d|label): (#[0-9a-f]{3,6})", block))
        found[name] = [linear(values[f"f{number}"]) for number in range(COLOURS)] + [linear(values["label"])]
    return found


def linear(text: str) -> Colour:
    """A colour of a style sheet in linear RGB."""
    digits = text[1:] if len(text) == 7 else "".join(digit * 2 for digit in text[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return red, green, blue


def lab(colour: Colour, vision: tuple[Colour, ...]) -> Colour:
    """CIELAB, as seen."""
    red, green, blue = (max(0.0, sum(a * b for a, b in zip(row, colour))) for row in vision)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.0888
    fx, fy, fz = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("place", ["light", "dark", "paper"])
def test_all_pairs_of_colours_differ(place, vision):
    """Twice as far apart as colours that are hard to tell."""
    seen = [lab(colour, VISIONS[vision]) for colour in palettes()[place][:COLOURS]]
    assert min(math.dist(one, other) for one, other in combinations(seen, 2)) > 2 * NOT_DIFFERENT


@pytest.mark.parametrize("place", ["light", "dark", "paper"])
def test_labels_can_be_read_on_every_colour(place):
    """The contrast is that of WCAG's level AA."""

    def light(colour: Colour) -> float:
        return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]

    *colours, label = palettes()[place]
    for colour in colours:
        low, high = sorted((light(colour), light(label)))
        assert (high + 0.05) / (low + 0.05) > 4.5


def test_the_first_32_functions_look_different():
    """Each has another colour, or another texture on it."""
    style = own_file("page.css")
    assert all(f".f{number} {{" in style for number in range(COLOURS))
    assert all(f".t{number} {{" in style for number in range(1, TEXTURES))
    assert COLOURS * TEXTURES == 32
