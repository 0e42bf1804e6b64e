"""The engine that runs clients at the sites of a network, over NVIDIA FLARE.

Only `flare_channel` knows FLARE; everything else is tested without it.

- `session`: one session of the coordinator, from registration to the last stage
- `registration`, `handshake`, `roster`: which sites take part, with which versions and client properties
- `engine`, `network_round`, `pending`, `quorum`: asks the sites and collects as many answers as a round needs
- `heartbeat`: which sites are reachable
- `acknowledged`, `census_cache`: what the coordinator remembers on disk of the answers it has
- `channel`, `flare_channel`: the calls to one site
- `wire`, `payload`, `chunking`: what crosses the network: headers, tensors, chunks
- `log_stream`: progress as log lines
"""
