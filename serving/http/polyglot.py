"""Polyglot files: a picture whose bytes are valid in another format as well.

A picture whose bytes also open as an archive, a PDF, a web page or a DICOM file is harmless to a decoder
and dangerous to whatever it is handed on to, and no camera writes one. Phones do append things to a JPEG
(a thumbnail, a depth map, a short film): those pass.
"""

import io
import re
import zipfile

_PAGE = re.compile(rb"<(?:script[\s>]|\?php\s|!doctype\s{1,64}html|html[\s>])", re.IGNORECASE)

# A search lets no other thread run before it ends: so it goes in strides, each overlapping the next.
_STRIDE = 2**20
_LONGEST_PAGE_MARK = 128

# Where readers look for a PDF's header (ISO 32000-1, annex H).
_PDF_REACH = 1024


def other_format(content: bytes) -> str | None:
    """The other format that a picture's bytes are valid in; None where they are a picture alone."""
    if b"%PDF-" in content[:_PDF_REACH]:
        return "a PDF"
    if _holds_page(content):
        return "a web page or script"
    if zipfile.is_zipfile(io.BytesIO(content)):
        return "a ZIP archive"
    if content[128:132] == b"DICM" and any(content[:128]):
        return "a DICOM file"
    return None


def _holds_page(content: bytes) -> bool:
    return any(
        _PAGE.search(content, start, start + _STRIDE + _LONGEST_PAGE_MARK)
        for start in range(0, len(content), _STRIDE)
    )
