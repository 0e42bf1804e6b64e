"""Federated training, in layers: each sub-package imports those below it alone.

- `run`: the command; `coordinator`: the same wiring inside FLARE.
- `engines`: how messages reach the clients: on one machine, or over a network of hospitals.
- `jobs`: the job file, its stages, the run folder.
- `rounds`: one round, server and client. Start reading at `training.rounds.server.loop`.
- `privacy`: what is done to an update on its way: masks, noise, compression.
- `algorithms`: objectives, aggregators, exchanges, syncs, and what they see of a client.
- `models`, `messages`, `tensor_file`, `data`: networks, what travels, and what training sees of pictures.
"""

# By this line dermfed/own_names.py knows that no other distribution wrote over this file.
