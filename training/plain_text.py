"""Texts of others on a terminal, as `registry.bundle.plain_text` shows them everywhere."""

from registry.bundle.plain_text import on_one_line, printable

__all__ = ["on_one_line", "printable"]
