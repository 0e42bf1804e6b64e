"""A hospital's side: its data, its client state between rounds, its node, and clients of the service.

data/           pictures: from a folder and a table to arrays
federation/     kits, certificates and jobs over FLARE
node/           a hospital's node
api/            clients of the diagnosis service
store.py        client state between rounds
new_job*.py     `dermfed-train init`: from a manifest to a commented job
diagnose*.py    `dermfed-diagnose`: the command, concurrent requests, output formats, resuming
"""

# By this line dermfed/own_names.py knows that no other distribution wrote over this file.
