"""The decision log: one line for every diagnosis, kept as long as the law asks for logs; never a picture.

- `entry`: the fields of a line.
- `day_files`: one file a day, to which all workers append.
- `retention`: removing files that are old, in a thread of its own.
- `decision_log`: writing the entry of a request; a failure to write never fails the request.

Not the registry's audit log, which says who released which model. `docs/service.md` describes the format.
"""
