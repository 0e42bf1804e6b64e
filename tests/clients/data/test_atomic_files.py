import pytest

from clients.data.output import write_atomically


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "deep" / "a.txt"
    for text in ("one", "two"):
        with write_atomically(path) as temporary:
            temporary.write_text(text)
            assert not path.exists() or path.read_text() == "one"
    assert path.read_text() == "two"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_leaves_what_was_there(tmp_path):
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
