"""Messages between server and clients, and how their tensors are held.

- `message`: questions and answers, and their checks
- `engine`: the interface of what moves them
- `spool`, `tensor_file`: tensors on disk
"""
