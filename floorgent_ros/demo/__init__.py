"""`floorgent demo`: the node, a mapping robot and a planner as three processes, and pictures of the walk."""
