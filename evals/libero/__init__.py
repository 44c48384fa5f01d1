"""LIBERO as a source of tasks; see `tasks.py` for what it offers."""
