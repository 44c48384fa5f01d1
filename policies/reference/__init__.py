"""Experts of the suites beside LIBERO and the table: model-based, each for its kind of task."""
