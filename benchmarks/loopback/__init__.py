"""A federation on this machine: real processes with kits and certificates, over loopback.

Tests and benchmarks share it, so modules here import each other by relative names.
"""
