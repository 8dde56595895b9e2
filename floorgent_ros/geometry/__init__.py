"""Grids, line segments and distances: pure functions on NumPy arrays, no torch and no ROS."""
