"""HTTP: the routes, what is around every request, uploads, and the description of the interface.

- `app`: the ASGI application of all routes; `middleware`: id, log line, problems and headers of each request.
- `diagnoses`, `outcomes`, `models`, `pages`: what each path answers, each a class over the shared
  `serving.state.ServiceState`.
- `upload`: the pictures and fields of a body.
- `openapi`: the description of the interface, and its page.
"""
