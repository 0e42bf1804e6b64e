"""Adapters: which turn a data set's folder and tables into a manifest.

adapter.py, table.py  the base classes; adapters by name, and their options in words
published.py          shared readers of tables, pictures, diagnoses and tones
csv_table.py          any table with a line for each picture, and the codes of diagnoses by their names
layouts.py            folders by label, MedMNIST's files, synthetic pictures
lesion_tables.py      HAM10000, ISIC 2019 and 2020, MILK10k, PAD-UFES-20
derm7pt.py, fitzpatrick17k.py, scin.py  one published data set each
"""
