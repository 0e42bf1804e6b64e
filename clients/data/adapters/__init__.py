"""Adapters: one file per data set or layout, which turns its folder and tables into a manifest.

adapter.py, table.py  the base classes; adapters by name, and their options in words
published.py          shared readers of tables, pictures, diagnoses and tones
csv_table.py, image_folder.py, medmnist.py, synthetic.py  layouts
all others            one published data set each
"""
