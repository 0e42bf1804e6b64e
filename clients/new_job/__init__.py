"""From a manifest of one's own to a commented job file: `dermfed-train init`.

questions.py  the five questions, what the manifests say of each, and what an answer makes of a job
writing.py    the job file's text, from `job.yaml.j2`
command.py    the command
"""
