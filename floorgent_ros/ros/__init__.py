"""The ROS 2 node: a thin shell around `floorgent_ros.predictor`, and the only place that imports rclpy."""
