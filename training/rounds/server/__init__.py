"""The server's half of a round.

- `loop`: the rounds of a stage; start reading here
- `plan`: what stays the same through the rounds, the state of each model, and who is asked
- `validation`: what is refused of updates
- `ask`: requests to all clients outside the rounds
- `checkpoint`: what is kept on disk
- `metrics`: what is logged
- `head_fit`: a head that is fitted to convergence
"""
