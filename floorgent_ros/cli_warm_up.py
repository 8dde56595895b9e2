"""`floorgent warm-up`: compile now what the first start would compile, in an image or after an update."""

from __future__ import annotations

import argparse
import time


def run(options: argparse.Namespace) -> int:
    """Load the checkpoint and predict once; the compiled code stays in numba's cache."""
    begun = time.monotonic()

    from floorgent_ros.predictor import DistancePredictor

    predictor = DistancePredictor.from_checkpoint(options.checkpoint, device=options.device)
    predictor.warm_up()
    print(f"{predictor.description}: ready after {time.monotonic() - begun:.1f} s")
    return 0
