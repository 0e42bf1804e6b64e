"""A hospital's node in a federation: the command `dermfed-node`, and what answers the coordinator.

cli.py              `dermfed-node`
check.py            is this node fit to take part
hospital.py         the component that FLARE makes for a job; publishes the next two
chunk_receiver.py   long questions and answers in chunks
request_handler.py  what is answered, and what is refused
identity.py         what it signs sums with, and which hospitals it knows
own_data.py         the node's pictures as the job asks for them
canary_guard.py     canaries that kill their process
task_line.py        the log line of a task
"""
