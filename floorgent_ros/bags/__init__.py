"""Recorded ROS 2 bags: what the node would have predicted on the way, without ROS."""
