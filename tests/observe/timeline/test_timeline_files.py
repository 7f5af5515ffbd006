"""Files of the timeline: written as a whole, or not at all."""

from __future__ import annotations

import gzip
import json
import os
import stat

import pytest
from miniray.observe.timeline.chrome import timeline
from miniray.observe.timeline.files import write_whole
from miniray.process import context
from miniray.testing import alias_ray

from tests.observe.timeline.timeline_sessions import Session, pipeline


@pytest.fixture
def session(monkeypatch) -> Session:
    """A handmade session in place of the running one."""
    made = pipeline(30)
    monkeypatch.setattr(context, "session", made)
    return made


def test_a_file_gets_the_same_events_for_viewers_and_none_is_returned(session, tmp_path):
    """The file is a JSON array, as in Ray. Its ids are numbers, and its times count from the beginning."""
    path = tmp_path / "t.json"
    assert timeline(path) is None
    events = json.loads(path.read_text("utf-8"))
    assert [event["name"] for event in events if event["ph"] == "X"] == [
        event["name"] for event in timeline() if event["ph"] == "X"
    ]
    assert {type(event[key]) for event in events for key in ("pid", "tid")} == {int}
    assert {type(event[key]) for event in timeline() for key in ("pid", "tid")} == {str}
    assert events == timeline(integer_ids=True)
    timeline(path, integer_ids=False)
    assert json.loads(path.read_text("utf-8")) == timeline()


def test_under_the_alias_a_file_has_the_form_of_ray(session, tmp_path):
    """A program that was written for Ray reads the file that it wrote."""
    with alias_ray():
        timeline(tmp_path / "t.json")
        assert json.loads((tmp_path / "t.json").read_text("utf-8")) == timeline()
    timeline(tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text("utf-8")) == timeline(integer_ids=True)


def test_a_name_that_ends_in_gz_is_compressed(session, tmp_path):
    """Perfetto, chrome://tracing and speedscope open such a file. Equal traces are equal files."""
    for name in ("t.json.gz", "again.JSON.GZ", "t.json"):
        timeline(tmp_path / name)
    packed = (tmp_path / "t.json.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "t.json").read_bytes()
    assert packed == (tmp_path / "again.JSON.GZ").read_bytes()
    assert len(packed) < (tmp_path / "t.json").stat().st_size / 5


def test_a_name_in_any_script_is_utf_8(session, tmp_path):
    """The locale does not matter."""
    session.task("\u8a08\u7b97", 0.1, 0.1, 0.2, 0.3, 0.4, 0.5)
    timeline(tmp_path / "t.json")
    assert "work.\u8a08\u7b97".encode() in (tmp_path / "t.json").read_bytes()


def test_html_gets_the_page(session, tmp_path):
    """Both files can be written at once."""
    assert timeline(str(tmp_path / "t.json"), html=tmp_path / "t.page") is None
    assert (tmp_path / "t.page").read_text().startswith("<!doctype html>")
    assert json.loads((tmp_path / "t.json").read_text())


def test_a_filename_that_ends_in_html_gets_the_page(session, tmp_path):
    """A browser would show JSON under that name as text."""
    timeline(str(tmp_path / "t.HTML"))
    assert (tmp_path / "t.HTML").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("name", ["nowhere/t.json", "nowhere/t.html", ""])
def test_a_missing_folder_is_an_error_that_names_the_file(session, tmp_path, monkeypatch, name):
    """It is a FileNotFoundError, and no file is left behind."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        timeline(name)
    assert caught.value.filename == name
    assert os.listdir(tmp_path) == []


def test_a_folder_is_an_error(session, tmp_path):
    """The folder is not replaced."""
    with pytest.raises(IsADirectoryError):
        timeline(tmp_path)
    assert tmp_path.is_dir()


def test_a_write_that_fails_half_way_leaves_only_the_old_file(tmp_path):
    """A reader sees the old text or the new one, never a part of it."""
    path = tmp_path / "t.json"
    path.write_text("old")

    def pieces():
        yield "new" * 100_000
        assert path.read_text() == "old"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, pieces())
    assert os.listdir(tmp_path) == ["t.json"] and path.read_text() == "old"


def test_an_existing_file_keeps_its_permissions(tmp_path):
    """As if the file had been opened and overwritten."""
    path = tmp_path / "t.json"
    path.write_text("old")
    path.chmod(0o640)
    write_whole(path, ["new"])
    assert path.read_text() == "new" and stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path):
    """The file that it points to is replaced."""
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    write_whole(tmp_path / "link.json", ["new"])
    assert (tmp_path / "link.json").is_symlink() and (tmp_path / "real.json").read_text() == "new"


def test_a_device_is_written_to(tmp_path):
    """Devices and pipes cannot be replaced."""
    write_whole("/dev/null", ["x"])
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
