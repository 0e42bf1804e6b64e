"""Pictures: from untrusted bytes to the pixels a model sees, the same on every side.

- `rule`: decoding, scaling and cropping, as training and service do it; maps laid over a picture.
- `open_file`: detecting the format and opening the header.
- `jpeg`: JPEGs of which no byte is missing, and files of too many pieces.
- `colours`: colour profiles, and what they make of colours.
- `dicom`: photographs in DICOM files.
"""
