"""Progress bars: a block below the output on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import pickle
import re
import sys
import types

import pytest

import miniray
from miniray.experimental import tqdm_ray
from miniray.experimental.tqdm_ray import tqdm
from miniray.observe.logs import progress_bars as drawing
from miniray.process import standard_streams

PID = os.getpid()


class Terminal(io.StringIO):
    """A screen of 80 columns that interprets the text written to it."""

    encoding = "utf-8"

    def isatty(self):
        return True

    def rows(self):
        """The visible lines."""
        rows, row, column = [""], 0, 0
        for count, code, char in re.findall(r"\x1b\[(\d*)([A-Za-z])|(.)", self.getvalue(), re.S):
            if code == "A":
                row -= int(count or 1)
            elif code == "J":
                rows[row:] = [rows[row][:column]]
            elif char == "\r":
                column = 0
            elif char == "\n":
                row, column = row + 1, 0
                if row == len(rows):
                    rows.append("")
            elif char:
                rows[row] = rows[row][:column].ljust(column) + char + rows[row][column + 1 :]
                column += 1
        return rows

    def bars(self):
        """The visible lines without drawings and times: `desc: 40% 4/10`."""
        return [re.sub(r"\|.*\|", "", row).split(" [")[0] for row in self.rows()]


@contextlib.contextmanager
def on_a_terminal():
    """The driver's stdout and stderr are one terminal."""
    screen = Terminal()
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
        yield screen
        gc.collect()
        tqdm_ray.instance().close(workers_only=False)


@contextlib.contextmanager
def on_a_page():
    """The driver's stderr is not a terminal."""
    with contextlib.redirect_stderr(io.StringIO()) as text:
        yield text


def lines(page):
    """Plain lines without times."""
    return [line.split(" [")[0] for line in page.getvalue().splitlines()]


# ---------------------------------------------------------------- on a terminal


def test_bars_form_a_block_below_the_output():
    """A print between two reports breaks neither."""
    with on_a_terminal() as terminal:
        first = tqdm(total=10, desc="first", flush_interval_s=0)
        second = tqdm(total=2000, desc="second", position=1, flush_interval_s=0)
        first.update(4)
        second.update(1500)
        print("hello", "world")
        print("two\nlines")
        assert terminal.bars() == ["hello world", "two", "lines", "first:  40% 4/10", "second:  75% 1.50k/2.00k"]


def test_a_line_in_pieces_is_not_broken_by_a_report():
    """The block returns when the line has ended."""
    with on_a_terminal() as terminal:
        bar = tqdm(total=10, desc="bar", flush_interval_s=0)
        bar.update()
        print("one", end="")
        bar.update()
        assert terminal.bars() == ["one"]
        print(" two")
        assert terminal.bars() == ["one two", "bar:  20% 2/10"]


def test_a_closed_bar_stays_and_the_others_move_down():
    """It keeps its last state; later counts are not drawn."""
    with on_a_terminal() as terminal:
        first, second = (tqdm(total=2, desc=name, flush_interval_s=0) for name in ("first", "second"))
        first.update()
        second.update()
        second.update()
        second.close()
        second.update()
        second.close()
        print("more")
        assert second.n == 3
        assert terminal.bars() == ["second: 100% 2/2", "more", "first:  50% 1/2"]


def test_a_finished_loop_is_drawn_as_complete_and_its_bar_is_closed():
    """Although items may come faster than bars are drawn."""
    with on_a_terminal() as terminal:
        for _ in tqdm(range(100), desc="fast"):
            pass
        gc.collect()
        print("after")
        assert terminal.bars() == ["fast: 100% 100/100", "after", ""]


def test_when_the_last_bar_is_closed_sys_is_as_it_was():
    """Only open bars need to intercept the output."""
    with on_a_terminal() as terminal:
        found = type(sys), sys.__dict__["stdout"]
        bar = tqdm(total=1)
        bar.update()
        assert type(sys) is not found[0] and sys.stdout is terminal
        bar.close()
        assert (type(sys), sys.__dict__["stdout"], standard_streams.above_bars) == (*found, None)


def test_safe_print_and_hiding():
    """Between hide_bars and unhide_bars the block is not on the screen."""
    with on_a_terminal() as terminal:
        bar = tqdm(total=2, desc="bar", flush_interval_s=0)
        bar.update()
        tqdm_ray.safe_print("safe")
        tqdm_ray.instance().hide_bars()
        bar.update()
        assert terminal.bars() == ["safe", ""]
        tqdm_ray.instance().unhide_bars()
        assert terminal.bars() == ["safe", "bar: 100% 2/2"]
        tqdm_ray.safe_print("elsewhere", file=(other := io.StringIO()))
        assert other.getvalue() == "elsewhere\n"


def test_bars_of_tasks_and_actors_carry_their_names():
    """Like the lines that tasks print, which go above. Bars that are open at shutdown keep their last state."""
    with on_a_terminal() as terminal:

        def load():
            bar = tqdm(total=4, desc="load", flush_interval_s=0)
            bar.update(4)
            bar.close()

        class Trainer:
            def __init__(self):
                self.bar = tqdm(total=4, desc="train", flush_interval_s=0)

            def step(self):
                self.bar.update()
                print("stepped")

        with miniray.init(num_cpus=2):
            trainer = miniray.remote(Trainer).remote()
            miniray.get([trainer.step.remote(), miniray.remote(load).remote()])
            assert f"\x1b[2m\x1b[36m(load pid={PID}) \x1b[0mload: 100%" in terminal.getvalue()
            assert terminal.bars()[-1] == f"(Trainer pid={PID}) train:  25% 1/4"
        assert sorted(terminal.bars()) == [
            "",
            f"(Trainer pid={PID}) stepped",
            f"(Trainer pid={PID}) train:  25% 1/4",
            f"(load pid={PID}) load: 100% 4/4",
        ]


def test_a_screen_with_too_few_lines_says_how_many_bars_are_left_out(monkeypatch):
    """A block that is higher than the screen could not be redrawn."""
    with on_a_terminal() as terminal:
        monkeypatch.setattr(drawing, "terminal_size", lambda terminal: (80, 4))
        bars = [tqdm(total=2, desc=str(i), flush_interval_s=0) for i in range(6)]
        for bar in bars:
            bar.update()
        assert terminal.bars() == ["0:  50% 1/2", "1:  50% 1/2", "... and 4 more"]


# ---------------------------------------------------------------- elsewhere


def test_without_a_terminal_each_report_is_a_line():
    """A report without news gets no line; nor does a report within the interval, unless it is the last."""
    with on_a_page() as page:
        bar = tqdm(total=4, desc="work", flush_interval_s=0)
        bar.update()
        bar.refresh()
        bar.update(2)
        bar.close()
        bar.close()
        for _ in tqdm(range(1000), desc="fast"):
            pass
        assert lines(page) == ["work:  25% 1/4", "work:  75% 3/4", "fast:   0% 1/1.00k", "fast: 100% 1.00k/1.00k"]


@contextlib.contextmanager
def in_a_notebook(monkeypatch):
    """The outputs of a notebook's cell, by name: what is shown at last, and how often it was replaced."""

    class Publisher:
        shown, replaced = {}, {}

        def publish(self, data, transient, update):
            name = transient["display_id"]
            assert update == (name in self.shown)
            self.replaced[name] = self.replaced.get(name, -1) + 1
            self.shown[name] = data

    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    publisher = Publisher()
    shell = types.SimpleNamespace(display_pub=publisher)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    with contextlib.redirect_stderr(stream):
        yield publisher
    assert stream.getvalue() == ""


def test_in_a_notebook_a_bar_is_one_output_that_is_replaced(monkeypatch):
    """Also the bar of a task. The text is never markup."""
    with in_a_notebook(monkeypatch) as outputs:
        for _ in tqdm(range(20), desc="<b>load", flush_interval_s=0):
            pass
        miniray.init(num_cpus=1)

        @miniray.remote
        def work():
            bar = tqdm(desc="in a task", total=3)
            bar.update(3)
            bar.close()

        miniray.get(work.remote())
        miniray.shutdown()
    (driver,) = [shown for shown in outputs.shown.values() if "load" in shown["text/plain"]]
    (task,) = [shown for shown in outputs.shown.values() if "in a task" in shown["text/plain"]]
    assert driver["text/plain"].startswith("<b>load: 100%|") and "20/20" in driver["text/plain"]
    assert 'value="1.0000"' in driver["text/html"] and "&lt;b&gt;load" in driver["text/html"]
    assert "in a task: 100%" in task["text/plain"]
    assert max(outputs.replaced.values()) >= 1


def test_lines_of_tasks_carry_their_names_and_are_not_in_their_logs():
    """On Ray, workers print their reports as JSON, which get_log shows."""
    with on_a_page() as page:

        def load():
            for _ in tqdm("ab", desc="load", flush_interval_s=0):
                pass
            return miniray.get_runtime_context().get_task_id()

        with miniray.init(num_cpus=1):
            from miniray.observe.logs.reading import get_log

            task_id = miniray.get(miniray.remote(load).remote())
            assert list(get_log(task_id=task_id)) == list(get_log(task_id=task_id, suffix="err")) == []
        assert lines(page) == [f"(load pid={PID}) load:  50% 1/2", f"(load pid={PID}) load: 100% 2/2"]


def test_log_to_driver_false_shows_no_bars_of_workers():
    """The driver's own bars are shown."""
    with on_a_page() as page:

        def load():
            list(tqdm("ab", desc="load", flush_interval_s=0))

        with miniray.init(num_cpus=1, log_to_driver=False):
            miniray.get(miniray.remote(load).remote())
            list(tqdm("a", desc="own"))
        assert lines(page) == ["own: 100% 1/1"]


def test_a_value_that_is_not_a_number_does_not_fail_the_program():
    """A total or description may be anything."""
    with on_a_page() as page:
        for total, desc in [("many", None), (float("nan"), "nan"), (float("inf"), "\x1b[2J"), (-1, 7)]:
            bar = tqdm(total=total, desc=desc, flush_interval_s=0)
            bar.update(2.5)
            bar.close()
        assert lines(page) == ["2.5it", "nan: 2.5it", "\\x1b[2J: 2.5it", "7: 2.5it"]


def test_without_any_stderr_nothing_is_drawn():
    """As under pythonw, which has none."""
    with contextlib.redirect_stderr(None):
        assert list(tqdm(range(3))) == [0, 1, 2]


def test_a_copy_is_a_separate_bar():
    """Its end does not end the original, and its first report does not wait for the original's interval."""
    with on_a_page() as page:
        bar = tqdm(total=10, desc="bar", flush_interval_s=100)
        bar.update()
        copy = pickle.loads(pickle.dumps(bar))
        del copy
        gc.collect()
        bar.close()
        assert (len(tqdm_ray.instance().bars), lines(page)) == (0, ["bar:  10% 1/10"])


@pytest.mark.parametrize(
    "value, text",
    [
        (0, "0"),
        (999, "999"),
        (2.5, "2.5"),
        (1000, "1.00k"),
        (12_345, "12.3k"),
        (999_499, "999k"),
        (999_900, "1.00M"),
        (1.5e21, "1500E"),
    ],
)
def test_large_numbers_are_shortened(value, text):
    """Three digits and a letter."""
    assert drawing.scaled(value) == text


def test_wide_characters_count_twice():
    """If a line were wider than the screen, the block would not be where the code assumes it."""
    assert drawing.columns("añ日本") == 6
    assert drawing.fitted("日本日本", 6) == "日..."
    assert drawing.fitted("short", 0) == "short"


def test_times_have_hours_only_when_there_are_some():
    """tqdm writes them the same way."""
    assert [drawing.clock(s) for s in (0, 65, 3665)] == ["00:00", "01:05", "1:01:05"]
