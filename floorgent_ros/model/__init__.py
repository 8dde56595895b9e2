"""The network: encoder, decoder, sampling and checkpoints. Torch only."""
