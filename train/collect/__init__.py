"""Demonstrations: scripted experts run instances of tasks, and what they saw, did and meant is written down."""
