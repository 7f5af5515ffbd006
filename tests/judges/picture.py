"""Takes the picture of the timeline's page that the README shows.

python -m tests.judges.picture      writes chapters/11_observability/timeline.png; needs Chromium
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import miniray as ray
from miniray.util.metrics import Counter, Gauge
from tests.observe.timeline.chromium import Browser, find_chromium

PICTURE = Path(__file__).resolve().parents[2] / "chapters/11_observability/timeline.png"
SIZE = {"width": 1280, "height": 1080}


@ray.remote(num_cpus=0)
class Index:
    """Counts the words of the documents."""

    def __init__(self) -> None:
        self.words = 0
        self.gauge = Gauge("index_words", "Words in the index")

    def add(self, words: int) -> int:
        """Add the words of some documents."""
        time.sleep(0.005)
        self.words += words
        self.gauge.set(self.words)
        return self.words


def run(page: Path) -> None:
    """Fetch, parse and merge documents; one of them takes far longer than the others. Writes the page."""
    ray.init(num_cpus=4, log_to_driver=False)

    @ray.remote
    def fetch(number: int) -> str:
        seconds = 0.55 if number == 5 else 0.04 + number % 3 * 0.01
        time.sleep(seconds)
        print(f"document {number}: {seconds * 1000:.0f} ms")
        Counter("documents_fetched", "Documents that have arrived").inc()
        return f"document {number}"

    @ray.remote
    def parse(text: str) -> list[str]:
        time.sleep(0.05)
        return text.split()

    @ray.remote
    def merge(*parts: list[str]) -> int:
        time.sleep(0.03)
        return sum(map(len, parts))

    index = Index.remote()
    ray.get(index.add.remote(0))
    parsed = [parse.remote(fetch.remote(number)) for number in range(16)]
    ray.get([index.add.remote(merge.remote(*parsed[place : place + 4])) for place in range(0, 16, 4)])
    ray.timeline(html=page)
    ray.shutdown()


def main() -> int:
    """Take the picture."""
    program = find_chromium()
    if program is None:
        print("there is no Chromium here")
        return 2
    with tempfile.TemporaryDirectory() as folder, Browser(program) as browser:
        page = Path(folder) / "run.html"
        run(page)
        browser.call("Emulation.setDeviceMetricsOverride", **SIZE, deviceScaleFactor=1, mobile=False)
        browser.open(page)
        browser.frame()
        browser.run(  # the longest attempt, as after a click
            "(() => { const m = window.miniray, all = [...Array(m.N).keys()];"
            " m.select(all.sort((a, b) => m.until(b) - m.leased[b] - m.until(a) + m.leased[a])[0], true) })()"
        )
        browser.frame()
        browser.screenshot(PICTURE)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
