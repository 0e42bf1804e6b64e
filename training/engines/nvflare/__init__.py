"""Clients at the sites of a network, over NVIDIA FLARE: questions go out in the server's job, answers return.

What decides here knows no FLARE and is tested without one: `engine` asks, `attendance` knows who is there,
`pace` how long a site may take, `ledger` what has arrived. `line` is one site as FLARE reaches it.
"""
