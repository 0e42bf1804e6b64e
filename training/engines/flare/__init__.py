"""The engine that runs clients at the sites of a network, over NVIDIA FLARE.

Only `flare_calls` knows FLARE; everything else is tested without it.

- `session`: one session of the coordinator, from registration to the last stage
- `registration`, `roster`: which sites take part, with which versions and client properties
- `engine`, `network_round`: asks the sites and collects as many answers as a round needs
- `calls`, `flare_calls`: the calls to one site, and which sites are reachable
- `wire`: what crosses the network: headers and tensors
"""
