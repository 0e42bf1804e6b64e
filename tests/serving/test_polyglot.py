import zipfile

import pytest

from serving.polyglot import second_nature


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_a_picture_is_a_picture_alone(picture, form):
    assert second_nature(picture(form)) is None


@pytest.mark.parametrize(
    "page", [b"<script>", b"<SCRIPT src=x>", b"<?php ", b"<!DocType\n html>", b"<html >"]
)
@pytest.mark.parametrize("before", [0, 2**20 - 3, 2**20, 3 * 2**20 - 1])
def test_a_page_is_found_wherever_it_begins(page, before):
    assert second_nature(bytes(before) + page + bytes(5)) == "a web page or script"


@pytest.mark.parametrize(
    "innocent", [b"<scripture>", b"<?xpacket begin=''?>", b"<?phpx", b"< html", b"<x:xmpmeta>"]
)
def test_what_only_resembles_one_passes(innocent):
    assert second_nature(innocent) is None


def test_archives_and_documents_are_found(picture, tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("a", "b")
    assert second_nature(picture() + path.read_bytes()) == "a ZIP archive"
    assert second_nature(picture()[:128].ljust(128, b"\1") + b"DICM") == "a DICOM file"
    assert second_nature(bytes(128) + b"DICM") is None
    assert second_nature(bytes(1000) + b"%PDF-1.7") == "a PDF"
    assert second_nature(bytes(1020) + b"%PDF-1.7") is None
