"""Engines: they move messages and run clients, and know no algorithm.

- `in_process`: all clients on one machine
- `flare`, `network_round`: clients at the sites of a network, over NVIDIA FLARE, and the answers
  that a round needs
- `session`: one session of the coordinator, from registration to the last stage
- `registration`, `roster`: which sites take part, with which versions and client properties
- `calls`, `flare_calls`: the calls to one site, and which sites are reachable; only `flare_calls` knows FLARE
- `wire`: what crosses the network: headers and tensors
"""
