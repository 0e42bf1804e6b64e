"""A hospital's picture files: reading their bytes, and decoding each once.

files.py            locate and read a picture: a file, or a member of a zip or `.npz` file
arrays.py           pictures in the arrays of a `.npz` file
cache.py            decode once, into one memory-mapped array
folder.py           the files of a folder and of the zip files in it
names.py            from what a table calls a picture to the one file that fits
suffixes.py         which files may be pictures
causes.py           why pictures cannot be used, by cause
fingerprints.py     perceptual hashes of pictures
detail.py           how alike two small grey pictures are
near_duplicates.py  pairs of pictures that are alike
"""
