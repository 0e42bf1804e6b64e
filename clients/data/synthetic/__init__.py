"""Synthetic skin lesions: for demonstrations and tests that need pictures but no patients.

cases.py   who and what a picture shows
lesion.py  shape and pigment of a lesion, by class
noise.py   smooth random fields
draw.py    the picture
write.py   a data set on disk
"""
