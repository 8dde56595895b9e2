"""FloorGenT as published: the token decoder, its variants and ablations, and their image encoders."""
