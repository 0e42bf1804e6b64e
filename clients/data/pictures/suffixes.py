"""The suffixes of pictures: which files of a folder may be pictures. What a file is, its content says."""

PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp"})
"""Of pictures that are found by name alone, as published tables name them."""

READ_SUFFIXES = PICTURE_SUFFIXES | {".jpe", ".jfif", ".dcm"}
"""Of pictures that may be read: one of these may stand for another."""

SUFFIXES = READ_SUFFIXES | {
    *(
        ".heic",
        ".heif",
        ".hif",
        ".avif",
        ".tif",
        ".tiff",
        ".bmp",
        ".gif",
        ".pdf",
        ".mpo",
        ".jp2",
        ".jxl",
        ".psd",
    ),
    *(".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf"),
}
"""Of all that people take for pictures."""
