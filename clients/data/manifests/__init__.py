"""Manifests: one line per picture, as CSV and in memory, and which pictures belong together.

manifest.py   rows and manifests in memory; linked pictures, which must stay together
csv_file.py   manifests as CSV; images that are not there, and the files that they mean
delimited.py  tables as spreadsheets save them: encoding, delimiter, lines
"""
