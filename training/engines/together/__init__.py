"""Processes of one machine that train one client together, a GPU each, by `torch.distributed`.

- `trainers`: starts them, asks them, and ends them when one is gone
- `member`: one of them
- `meeting`: how they find each other, and what they compute on
- `inherited_group`: how they add up gradients on processors
"""
