"""What the engine costs: measured against bare MuJoCo and against its own parts, always as ratios within one process."""
