"""A hospital's federated node: `dermfed-node`, and what answers the coordinator there."""
