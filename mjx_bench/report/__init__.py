"""What a results folder says: `summary` (numbers), `table` (for people), `plot` (one picture). Stands on records alone."""
