"""Synthetic skin lesions: for demonstrations and tests that need pictures but no patients.

draw.py   who and what a picture shows, shape and pigment of a lesion by class, and the picture
write.py  a data set on disk
"""
