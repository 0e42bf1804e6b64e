"""Photographs in DICOM files.

- `elements`: walking the data elements; `values`: the few values that are read.
- `frame`: the description of the one frame, and its pixels; `picture`: the frame as a picture.
"""
