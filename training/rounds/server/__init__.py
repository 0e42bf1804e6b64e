"""The server's half of a round.

- `round_loop`: the rounds of a stage; start reading here
- `plan`: what stays the same through the rounds, and the state of each model
- `opening`: initialization before round 1
- `ask`, `aggregation`, `norm_bound`: questions to all clients, the sum of their updates, and its defence
- `examiner`, `upload_store`: what an exchange may call at the coordinator
- `checkpoint`, `best_round`, `mean_model`: what is kept on disk
- `metrics_log`, `round_metrics`: what is logged
"""
