"""A hospital's node in a federation: the command `dermfed-node`, and what answers the coordinator.

- `cli`, `check`: the command: kits, and whether this node is fit to take part
- `hospital`: the component that FLARE makes for a job, and its process
- `outbound_gateway`, `journal`: all that leaves goes out here, and is entered
- `request_handler`: answering, once, whatever is killed; long requests and answers in pieces
- `policy`, `guards`: what this hospital allows
- `identity`: what it signs sums with, and which hospitals it knows
- `own_data`: the node's pictures as the job asks for them
"""
