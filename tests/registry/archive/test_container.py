"""The file: the same bytes for the same release, and never more in memory than on the disk."""

import struct
import zipfile

import pytest

from registry import archive as container
from registry.archive import open_container, write_container
from registry.errors import ArchiveError, ArchiveRefused

HEX = "0123456789abcdef" * 4
FILES = [
    ("release.json", b"{}"),
    (f"manifests/{HEX}.json", b"manifest"),
    (f"models/{HEX}.onnx", b"model" * 100),
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "release.dermfed"


def write(path, *entries):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content, *method in entries:
            archive.writestr(name, content, *method)


INDEX = ("release.json", b"{}")


def refusal(path):
    with pytest.raises(ArchiveRefused) as caught, open_container(path):
        pass
    return str(caught.value)


def test_what_is_written_is_read(path):
    size = write_container(path, FILES)
    with open_container(path) as opened:
        assert dict(opened.sizes) == {name: len(content) for name, content in FILES}
        assert [(name, opened.read(name)) for name in opened.sizes] == FILES
    assert size == path.stat().st_size
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_its_bytes_are_these(path):
    """By hand from PKWARE's APPNOTE 6.3: local headers, central directory, end."""
    write_container(path, FILES[:1])
    name, content = b"release.json", b"{}"
    date = struct.pack("<HH", 0, (0 << 9) | (1 << 5) | 1)
    sizes = struct.pack("<LLL", zipfile.crc32(content), 2, 2)
    head = struct.pack("<HHH", 20, 0, 0) + date + sizes + struct.pack("<HH", len(name), 0)
    attributes = struct.pack("<HHHLL", 0, 0, 0, 0o100644 << 16, 0)
    local = b"PK\3\4" + head + name + content
    central = b"PK\1\2" + struct.pack("<BB", 20, 3) + head + attributes + name
    end = b"PK\5\6" + struct.pack("<HHHHLLH", 0, 0, 1, 1, len(central), len(local), 0)
    assert path.read_bytes() == local + central + end


def test_a_write_that_fails_leaves_what_was_there(path):
    write_container(path, FILES)
    before = path.read_bytes()

    def fail():
        yield FILES[0]
        raise RuntimeError("the store went away")

    with pytest.raises(RuntimeError):
        write_container(path, fail())
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_decompression_bomb_is_refused_unread(path, method, monkeypatch):
    write(path, INDEX, (f"models/{HEX}.onnx", bytes(10_000_000), method))
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(zipfile.ZipFile, "open", None)  # whatever reads an entry
    assert "compressed" in refusal(path)


def test_the_same_name_twice_is_refused(path):
    with pytest.warns(UserWarning, match="Duplicate"):
        write(path, INDEX, INDEX)
    assert "a file twice" in refusal(path)


def test_a_claim_of_more_than_the_file_is_refused(path):
    """Sizes in the central directory are what is allocated before reading."""
    write_container(path, FILES)
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\1\2") + 20
    content[at : at + 8] = struct.pack("<LL", 2**30, 2**30)
    path.write_bytes(content)
    assert "claims 1,073,741,8" in refusal(path)


def test_entries_that_overlap_are_refused(path):
    """Each entry of the central directory points to the same bytes: small in the file, large in memory."""
    large = (f"models/{HEX}.onnx", bytes(100_000))
    others = [(f"models/{digit * 64}.onnx", b"") for digit in "abcdef"]
    write_container(path, [FILES[0], large, *others])
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\1\2")
    records = []
    while content[at : at + 4] == b"PK\1\2":
        records.append(at)
        at += 46 + struct.unpack_from("<H", content, at + 28)[0]
    offset = content[records[1] + 42 : records[1] + 46]
    for record in records[2:]:
        content[record + 20 : record + 28] = struct.pack("<LL", 100_000, 100_000)
        content[record + 42 : record + 46] = offset
    path.write_bytes(content)
    assert "claims 700,002" in refusal(path)


def test_an_index_over_its_limit_is_refused(path, monkeypatch):
    write_container(path, FILES)
    monkeypatch.setattr(container, "MAX_TEXT_BYTES", 1)
    assert "release.json may have 1" in refusal(path)


def test_an_encrypted_entry_is_refused(path):
    write_container(path, FILES)
    content = bytearray(path.read_bytes())
    for record in (content.index(b"PK\1\2") + 8, content.index(b"PK\3\4") + 6):
        content[record] |= 1
    path.write_bytes(content)
    with open_container(path) as opened, pytest.raises(ArchiveRefused, match="encrypted"):
        opened.read("release.json")


def test_too_many_files_are_refused(path, monkeypatch):
    write_container(path, FILES)
    monkeypatch.setattr(container, "_MAX_ENTRIES", 2)
    assert "holds 3 files; a release holds at most 2" in refusal(path)


@pytest.mark.parametrize("content", [b"", b"PK", b"no zip at all" * 100, b"\x80\x04\x95pickled"])
def test_what_is_no_zip_is_refused(path, content):
    path.write_bytes(content)
    assert "is no release" in refusal(path)


def test_what_cannot_be_opened_is_named(tmp_path):
    for place in (tmp_path / "nothing", tmp_path):
        with pytest.raises(ArchiveError, match="cannot be read"), open_container(place):
            pass
