"""Files of the timeline: written as a whole, or not at all."""

from __future__ import annotations

import json
import os
import stat

import pytest
from miniray.observe.timeline.chrome import timeline, write_whole
from miniray.process import context

from tests.observe.timeline.timeline_sessions import Session, pipeline


@pytest.fixture
def session(monkeypatch) -> Session:
    """A handmade session in place of the running one."""
    made = pipeline(30)
    monkeypatch.setattr(context, "session", made)
    return made


def test_a_filename_gets_the_same_events_and_none_is_returned(session, tmp_path):
    """The file is a JSON array, as in Ray."""
    path = tmp_path / "t.json"
    assert timeline(path) is None
    assert json.loads(path.read_text()) == timeline()


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
