import zipfile

import pytest

from serving.http.polyglot import other_format


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_a_picture_is_a_picture_alone(picture, form):
    assert other_format(picture(form)) is None


@pytest.mark.parametrize(
    "page", [b"<script>", b"<SCRIPT src=x>", b"<?php ", b"<!DocType\n html>", b"<html >"]
)
@pytest.mark.parametrize("before", [0, 2**20 - 3, 2**20, 3 * 2**20 - 1])
def test_a_page_is_found_wherever_it_begins(page, before):
    assert other_format(bytes(before) + page + bytes(5)) == "a web page or script"


@pytest.mark.parametrize(
    "innocent", [b"<scripture>", b"<?xpacket begin=''?>", b"<?phpx", b"< html", b"<x:xmpmeta>"]
)
def test_what_only_resembles_one_passes(innocent):
    assert other_format(innocent) is None


def test_archives_and_documents_are_found(picture, tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("a", "b")
    assert other_format(picture() + path.read_bytes()) == "a ZIP archive"
    assert other_format(picture()[:128].ljust(128, b"\1") + b"DICM") == "a DICOM file"
    assert other_format(bytes(128) + b"DICM") is None
    assert other_format(bytes(1000) + b"%PDF-1.7") == "a PDF"
    assert other_format(bytes(1020) + b"%PDF-1.7") is None
