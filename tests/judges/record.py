"""What the page, `explain` and the doctor say of the twelve prepared runs, as texts to read: the folder `recorded`.

    python -m tests.judges.record        write the texts again

A test compares them with what the three say now.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from html import unescape
from pathlib import Path
from typing import Any

import miniray as ray
from miniray.cli.doctor import report
from miniray.observe import doctor
from miniray.observe.explain.bottleneck import explain_run
from miniray.observe.timeline.page import page
from miniray.process import context
from tests.observe.explain.slow_runs import RUNS
from tests.observe.timeline.timeline_sessions import Session

RECORDED = Path(__file__).parent / "recorded"


def texts() -> dict[str, str]:
    """The text of each run, by its name."""
    return {run.__name__: text_of(run.__doc__ or "", run()) for run, *_ in RUNS}


def text_of(what: str, run: Session) -> str:
    """What the three say of a run."""
    args = argparse.Namespace(width=100, program=["program.py"])
    return "\n\n".join(
        [
            what,
            "The page's cards:\n\n" + "\n".join(f"    {line}" for line in cards(run)),
            "explain():\n\n    " + str(explain_run(run)),
            "The doctor:\n\n" + "\n".join(f"    {line}".rstrip() for line in report(findings(run), args).split("\n")),
            "",
        ]
    )


def cards(run: Session) -> list[str]:
    """The texts of the page's cards, a line for each paragraph."""
    html = "".join(page(run.read()))
    sections = re.findall(r'<section class="card[^>]*>(.*?)</section>', html, re.S)
    lines = []
    for section in sections:
        for part in re.split(r"</h2>|</p>|</li>", section):
            text = unescape(re.sub(r"<[^>]*>", "", part)).strip()
            if text:
                lines.append(text)
    return lines


def findings(run: Session) -> list[doctor.Finding]:
    """The doctor's findings of a prepared run: its recording and its nodes, and nothing else in the tables."""
    ray.init(num_cpus=2, log_to_driver=False)
    try:
        tables = doctor.Tables(context.session)
        tables.recording, tables.nodes = run.read(), nodes_of(run)
        return doctor.findings_in(tables)
    finally:
        ray.shutdown()


def nodes_of(run: Session) -> list[dict[str, Any]]:
    """The rows of a prepared run's nodes."""
    return [
        {
            "node_id": node.hex,
            "state": "ALIVE",
            "resources_total": {"CPU": node.total["CPU"] / 10_000},
            "resources_available": {},
            "object_store": node.store.stats(),
        }
        for node in run.cluster.nodes.values()
    ]


def main() -> None:
    """Write the texts."""
    warnings.simplefilter("ignore")
    RECORDED.mkdir(exist_ok=True)
    for name, text in texts().items():
        (RECORDED / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    sys.exit(main())
