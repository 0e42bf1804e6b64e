from pathlib import Path

import pytest

from clients.data.atomic_files import build_folder_once, write_atomically


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.txt"
    for text in ("one", "two"):
        with write_atomically(path) as temporary:
            temporary.write_text(text)
            assert not path.exists() or path.read_text() == "one"
    assert path.read_text() == "two"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")

    def write_half() -> None:
        with write_atomically(path) as temporary:
            temporary.write_text("tw")
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_half()
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_the_first_builder_of_a_folder_wins(tmp_path: Path) -> None:
    path = tmp_path / "built"
    with build_folder_once(path) as slow:
        (slow / "who").write_text("slow")
        with build_folder_once(path) as fast:
            (fast / "who").write_text("fast")
    assert (path / "who").read_text() == "fast"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_half_built_is_thrown_away(tmp_path: Path) -> None:
    def build_half() -> None:
        with build_folder_once(tmp_path / "built") as building:
            (building / "half").touch()
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        build_half()
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "built").touch()

    def build() -> None:
        with build_folder_once(tmp_path / "built"):
            pass

    with pytest.raises(NotADirectoryError):
        build()
