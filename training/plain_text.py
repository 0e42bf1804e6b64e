"""Texts of others on a terminal, as `registry.bundle.text` shows them everywhere."""

from registry.bundle.text import on_one_line, printable

__all__ = ["on_one_line", "printable"]
