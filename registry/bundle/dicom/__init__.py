"""Photographs in DICOM files: from the elements of a file (`elements`, `values`) to its frame and picture."""
