"""Decoding pictures of strangers in processes of their own, which can be killed and can do nothing else.

- `decoders`: what the service asks, a pool of workers; `decoder`: one worker as its asker sees it.
- `template`: the process that workers are forked from, and how the service talks with it.
- `worker`: what a worker does; `confine` and `system_calls`: what it can do.
- `wire`: what the two say to each other.
"""
