"""A federation of hospitals: participants, their kits and certificates, and jobs that run over FLARE.

federation_file.py, kit.py            who takes part, and the folder each gets
provision.py, certificates.py, renewal.py, site_policy.py  making and renewing kits
processes.py, flare.py, exit_with_parent.py, retention.py  running a node's FLARE
console_log.py                        a node's log lines on its console
federated.py, supervise.py, job_folder.py, admin_client.py  running a job from the admin's side
metrics_follower.py, status_line.py   following its progress
errors.py                             the exception tree
"""
