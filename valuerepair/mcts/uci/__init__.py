"""The search as a UCI engine: options, `go` and time, info lines, and the server that ties them together."""
