"""A simulated robot: LIDAR, mapper and walk, shared by the demo, training and evaluation."""
