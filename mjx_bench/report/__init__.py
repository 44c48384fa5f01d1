"""What a results folder says.

`pairs` (what is counted), `summary` (numbers), `table` (for people), `plot` (one picture). Stand on records alone.
"""
