"""What lies between a socket and the application: which connections are kept, for how long, and how they end.

uvicorn speaks HTTP; this room bounds what a caller can hold of it. `listening` opens the port and closes it,
`connections` says which connection makes room for another, `protocol` watches one connection, and `server`
serves an application with all of that.
"""
