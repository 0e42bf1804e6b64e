"""Manifests: one line per picture, as CSV and in memory, and which pictures belong together.

manifest.py  rows and manifests in memory
csv_file.py  manifests as CSV
text_file.py, delimited.py  tables as spreadsheets save them: encoding, delimiter, lines
matched_images.py  images that are not there, and the files that they mean
groups.py    linked pictures, which must stay together
"""
