"""LeRobot datasets, versions 2.1 and 3.0: written, read, checked and converted without LeRobot itself."""
