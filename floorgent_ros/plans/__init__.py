"""Floor plans as data: readers, building-wise splits, viewpoints, and a plan of the project's own."""
