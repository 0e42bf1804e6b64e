"""Decoding pictures of strangers in processes of their own, which can be killed and can do nothing else.

- `decoders`: what the service asks, one queue for all keys.
- `template`: the processes as the service sees them; `worker`: what they do; `confine`: what they can do.
- `messages`: what the two say to each other.
"""
