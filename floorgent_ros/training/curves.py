"""TensorBoard curves of a run: ``tensorboard --logdir RUN``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tensorboardX import SummaryWriter
from torch import nn

from floorgent_ros.geometry.raster import rasterise
from floorgent_ros.model.paper.network import SequenceBatch, SequenceNet
from floorgent_ros.model.paper.sampling import Given, draw

PICTURE_CELLS = 256
PICTURES = 2  # samples shown a validation


class Curves:
    """Losses, for the paper's networks calibration and sample pictures too, in its ``curves`` folder."""

    def __init__(self, out: Path, step: int) -> None:
        """step: where the run goes on; what an interrupted run wrote beyond it is left out."""
        self.writer = SummaryWriter(str(out / "curves"), purge_step=step or None)

    def losses(self, step: int, unit: str, training_bits: float, val_bits: float, rate: float) -> None:
        """Bits a unit and the learning rate."""
        for name, value in (
            (f"bits_per_{unit}/training", training_bits),
            (f"bits_per_{unit}/val", val_bits),
            ("learning_rate", rate),
        ):
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def sequences(self, step: int, network: nn.Module, batch: object) -> None:
        """Confidence and accuracy on a validation batch, and samples drawn as pictures."""
        if not isinstance(network, SequenceNet) or not isinstance(batch, SequenceBatch):
            return
        scores = network.scores(batch)
        spent = scores.counted & (scores.nats > 0)  # certain tokens say nothing
        self.writer.add_scalar("calibration/confidence", float(scores.confidence[spent].mean()), step)
        self.writer.add_scalar("calibration/accuracy", float((scores.rank == 0)[spent].float().mean()), step)
        image = batch.image[-1:].cpu().numpy() if network.config.observation != "none" else None
        told = 0 if batch.given is None else int(batch.given[-1])
        beyond = None if batch.beyond is None else batch.beyond[-1:, :told].cpu().numpy()
        given = Given(image, batch.levels[-1:, :told].cpu().numpy(), beyond)
        for index, levels in enumerate(draw(network, PICTURES, seed=0, given=given)):
            picture = rasterise(levels.reshape(-1, 2, 2), PICTURE_CELLS)[::-1]
            self.writer.add_image(f"sample/{index}", 1 - picture[None].astype(np.float32), step)
        self.writer.flush()
