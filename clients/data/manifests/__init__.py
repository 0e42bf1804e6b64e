"""Manifests: one line per picture, as CSV and in memory, and which pictures belong together.

manifest.py  rows and manifests in memory
csv_file.py  manifests as CSV
groups.py    linked pictures, which must stay together
"""
