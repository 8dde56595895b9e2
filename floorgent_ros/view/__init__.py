"""A live page in the browser: the map, the predicted walls and the distances."""
