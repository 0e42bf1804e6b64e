"""Engines: they move messages and run clients, and know no algorithm.

- `in_process`: all clients on one machine; `malloc`: its memory; `parts_file`: what workers start from
- `nvflare`: clients at the sites of a network
"""
