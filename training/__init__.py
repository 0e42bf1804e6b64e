"""The federated algorithms, the round loop, engines and export. Start reading at `training.federation`."""
