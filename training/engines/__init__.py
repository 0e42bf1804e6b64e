"""Engines move messages and run clients; they know no algorithm."""
