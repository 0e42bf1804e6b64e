"""Adapters: one file per data set or layout, which turns its folder and tables into a manifest.

adapter.py, table.py  the base class, and adapters by name
options.py  the options of an adapter in words
published.py, diagnoses.py  shared readers of tables, pictures, diagnoses and tones
csv_table.py, image_folder.py, medmnist.py, synthetic.py  layouts
all others  one published data set each
"""
