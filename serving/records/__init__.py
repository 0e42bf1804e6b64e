"""What is kept of every diagnosis, for as long as the law asks for logs: a line, and never a picture.

- `record`: what a line says, in which form.
- `day_files`: one file a day, which all workers add lines to, and which go when they are old.
- `keeping`: from a request to its line; what is in the way of writing never fails the request.

Not the registry's audit, which tells who released which model. `docs/service.md` describes the format.
"""
