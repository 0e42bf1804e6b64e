"""A federation of hospitals: participants, their kits and certificates, and jobs that run over FLARE.

- `kit`: who takes part, and the folder each gets
- `provision`, `certificates`, `site_policy`: making and renewing kits
- `processes`, `flare`, `logs`: running a node's FLARE
- `admin_client`, `supervise`, `job_folder`, `status`: running a job from the admin's side
- `site_status`: which hospitals are let in
- `errors`: the exception tree
"""
