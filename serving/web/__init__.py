"""The pages for people: try a picture, and what whoever runs the service has to see.

Rendered here and complete without a script; style sheet and script are files of ours. What a page shows is
computed by the same code as the interface's answers.
"""
