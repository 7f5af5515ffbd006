"""Independent judges of what people see: viewers of traces, and checkers of pages. `make judges` runs them.

    python -m tests.judges.run               all prepared runs
    python -m tests.judges.run demo crashes  only these

prepared      runs whose traces and pages are judged
tools         installs the judges into a folder outside the repository
viewers.mjs   opens a trace in Perfetto, speedscope and chrome://tracing
pages.mjs     opens a page in Chromium, on a screen, on a phone and on paper; axe looks for barriers
run           runs everything, and prints a line for each verdict
record        what the page, `explain` and the doctor say of twelve slow runs, as texts in `recorded`; a test compares them

The judges need the network once, Debian's Chromium and Java, and Node. They are no part of the
tests.
"""
