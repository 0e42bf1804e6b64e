"""A hospital's picture files: reading their bytes, and decoding each once.

files.py            locate and read a picture: a file, or a member of a zip or `.npz` file
arrays.py           pictures in the arrays of a `.npz` file
cache.py            decode once, into one memory-mapped array
fingerprints.py     perceptual hashes of pictures
detail.py           how alike two small grey pictures are
near_duplicates.py  pairs of pictures that are alike
"""
