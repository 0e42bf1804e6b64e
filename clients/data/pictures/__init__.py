"""A hospital's picture files: reading their bytes, and decoding each once.

files.py            locate and read a picture in a file, zip or `.npz` file; decode once, into one array
names.py            from what a table calls a picture to the one file that fits, and why there is none
near_duplicates.py  perceptual hashes, and pairs of pictures that are alike
"""
