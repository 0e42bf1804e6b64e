"""Pictures: from untrusted bytes to the pixels a model sees, the same on every side.

- `rule`: decoding, scaling and cropping, as training and service do it.
- `open_file`: telling the format and opening the header; `piece_limits`: files of too many pieces.
- `jpeg`: JPEGs of which no byte is missing.
- `colours`: what colour profiles make of colours; `profile`: which of them are looked at.
- `dicom`: photographs in DICOM files.
"""
