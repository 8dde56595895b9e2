"""How long everything takes: ours by stage, the straightforward path and the peers in the same run."""
