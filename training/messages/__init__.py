"""Messages between server and clients, and how their tensors are held.

- `message`: requests and answers, their checks, and the interface of what moves them
- `tensor_file`: tensors on disk
"""
