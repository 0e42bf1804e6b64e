"""Engines: they move messages and run clients, and know no algorithm.

- `in_process`: all clients on one machine
- `flare`: clients at the sites of a network
"""
