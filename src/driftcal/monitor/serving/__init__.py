"""The monitor as a process: a loop over a stream or an HTTP endpoint, with its files and metrics pages."""
