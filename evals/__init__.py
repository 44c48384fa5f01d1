"""The content: one folder a benchmark, and `registry`, which knows every suite by name."""
