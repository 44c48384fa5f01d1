"""The command line: one file a command, each a dataclass of options and `run`."""
