"""A hospital's picture files: reading their bytes, and decoding each once.

files.py            locate and read a picture: a file, or a member of a zip or `.npz` file
cache.py            decode once, into one memory-mapped array
names.py            from what a table calls a picture to the one file of a folder that fits
causes.py           why pictures cannot be used, by cause
near_duplicates.py  perceptual hashes, and pairs of pictures that are alike
"""
