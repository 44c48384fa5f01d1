"""What drives a robot with an arm on a base: moves, and programs that choose the next one from what is seen."""
