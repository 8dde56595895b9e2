"""The training loop for every network: likelihood, with checkpoint, resume, validation and curves."""

from __future__ import annotations

import argparse
import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from floorgent_ros.config import TrainingSettings
from floorgent_ros.errors import CheckpointError, ConfigError, FloorgentError
from floorgent_ros.model.checkpoint import Config, build, load_checkpoint, save_checkpoint
from floorgent_ros.training.configuration import read_config
from floorgent_ros.training.curves import Curves
from floorgent_ros.training.processes import Processes
from floorgent_ros.training.state import Progress, load_state, random_state, save_state
from floorgent_ros.training.tasks import task_of

_LOWEST_RATE = 0.02  # of the peak, at the end of the schedule
_CLIP = 1.0  # gradient norm


class Trainer:
    """One run in a folder: ``state.safetensors`` to resume, ``best`` and ``last`` checkpoints.

    Several processes share each batch; the result is that of one process but for the order of sums.
    """

    def __init__(
        self,
        out: Path,
        config: Config,
        settings: TrainingSettings,
        data: Path,
        processes: Processes | None = None,
    ) -> None:
        self.out, self.config, self.settings = out, config, settings
        self.processes = processes or Processes()
        if settings.batch % self.processes.count:
            raise ConfigError(
                f"batch = {settings.batch}: give a multiple of the {self.processes.count} processes"
            )
        self.task = task_of(config, settings, data, out, self.processes)
        torch.manual_seed(settings.seed)
        self.network = build(config).to(self.processes.device)
        if not self.processes.first:
            torch.manual_seed(settings.seed + 7919 * self.processes.rank)  # dropout of its own
        self.parallel = self.processes.parallel(self.network)
        self.average = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(),
            settings.learning_rate,
            betas=(0.9, settings.beta2),
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.progress = Progress()
        self.curves: Curves | None = None

    @property
    def state_path(self) -> Path:
        """The resumable state's file."""
        return self.out / "state.safetensors"

    def resume(self) -> None:
        """Go on from the folder's state."""
        self.progress = load_state(
            self.state_path, self.network, self.average, self.optimiser, self.processes.rank
        )

    def start_from(self, checkpoint: Path) -> None:
        """Begin with another network's weights; what it lacks of this one begins as ever.

        Raises `CheckpointError` for a network of another architecture or of other sizes.
        """
        found, _ = load_checkpoint(checkpoint)
        architecture, own = self.config.architecture, self.network.state_dict()
        shared = {name: tensor for name, tensor in found.state_dict().items() if name in own}
        wrong = [f"{name} is {tuple(t.shape)}" for name, t in shared.items() if t.shape != own[name].shape]
        if found.config.architecture != architecture:
            wrong = [f"its architecture is {found.config.architecture}"]
        if wrong:
            cure = f"start from a network of architecture {architecture} and of the run's sizes"
            raise CheckpointError(f"{checkpoint}: {wrong[0]}; {cure}")
        self.network.load_state_dict(own | shared)
        self.average = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}

    def run(self) -> Progress:
        """Train until the settings' minutes are used or nothing gets better; returns the progress."""
        settings, progress = self.settings, self.progress
        stream = self.task.batches(progress.step, self._share)
        if self.processes.first:
            self.curves = Curves(self.out, progress.step)
        total = settings.minutes * 60
        shown = round(total)
        bar = tqdm(
            total=shown,
            initial=round(progress.seconds),
            unit="s",
            desc="training",
            disable=not self.processes.first,
        )
        saved = progress.seconds
        bits = math.nan
        while progress.seconds < total and not self._exhausted:
            begun = time.monotonic()
            bits = self._step(next(stream), bits)
            progress.step += 1
            progress.seconds += self.processes.of_first(time.monotonic() - begun)
            bar.update(min(round(progress.seconds), shown) - bar.n)
            bar.set_postfix(
                step=progress.step, bits=f"{bits:.2f}", val=f"{progress.best_bits:.2f}", refresh=False
            )
            if progress.seconds - progress.validated >= settings.val_minutes * 60:
                self._validate(bits)
                saved = -math.inf  # `best` and what is known of it must not part
            if progress.seconds - saved >= settings.checkpoint_minutes * 60:
                saved = progress.seconds
                self._save()
        bar.close()
        if progress.validated < progress.seconds:
            self._validate(bits)
        self._save()
        return progress

    def evaluate(self) -> float:
        """Bits per unit of the averaged weights on the validation samples (stops included).

        Every process scores its share of the samples.
        """
        sums = torch.zeros(2, dtype=torch.float64)  # nats, units
        with self._averaged(), torch.inference_mode():
            for batch in self.task.val[self._share]:
                nats = self.network(batch.to(self.processes.device)).nats.sum()
                sums += torch.tensor([float(nats), float(self.task.counted(batch))])
        nats, units = self.processes.total(sums.to(self.processes.device)).tolist()
        return nats / units / math.log(2)

    @contextlib.contextmanager
    def _averaged(self) -> Iterator[None]:
        """The network with the averaged weights, in evaluation mode."""
        kept = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        self.network.load_state_dict(self.average)
        self.network.eval()
        try:
            yield
        finally:
            self.network.train()
            self.network.load_state_dict(kept)

    @property
    def _exhausted(self) -> bool:
        """Whether the last `patience` validations brought nothing better."""
        patience, found = self.settings.patience, [row[-1] for row in self.progress.history]
        return 0 < patience < len(found) and min(found[-patience:]) >= min(found[:-patience])

    @property
    def _share(self) -> slice:
        """This process's part of what is divided among the processes."""
        return slice(self.processes.rank, None, self.processes.count)

    def _step(self, batch: Any, smoothed: float) -> float:
        """One optimiser step; returns the smoothed training bits per unit."""
        settings = self.settings
        for group in self.optimiser.param_groups:
            group["lr"] = self._rate()
        batch = batch.to(self.processes.device)
        mixed = settings.precision == "bfloat16"
        with torch.autocast(self.processes.device.type, torch.bfloat16, enabled=mixed):
            losses = self.parallel(batch)
        units = self.processes.total(self.task.counted(batch)).clamp(min=1)  # of all processes
        nats = losses.nats.sum() * self.processes.count / units  # gradients are averaged over processes
        loss = nats + settings.raster_weight * losses.raster
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), _CLIP)
        reached = self.processes.total(torch.stack([loss.detach(), nats.detach()])) / self.processes.count
        if not torch.isfinite(reached[0] + norm):  # before the step, so that the saved state stays good
            raise FloorgentError(self._diverged(float(reached[0]), float(norm)))
        self.optimiser.step()
        self._update_average()
        bits = float(reached[1]) / math.log(2)
        return bits if math.isnan(smoothed) else 0.98 * smoothed + 0.02 * bits

    def _diverged(self, loss: float, norm: float) -> str:
        cure = (
            "--resume and a smaller learning_rate" if self.state_path.exists() else "a smaller learning_rate"
        )
        return f"{self.out}: loss {loss}, gradient {norm} at step {self.progress.step}; go on with {cure}"

    def _rate(self) -> float:
        """Linear warm-up by step, then a cosine over the run's time, or no change."""
        settings = self.settings
        done = min(1.0, self.progress.seconds / (settings.minutes * 60))
        cosine = _LOWEST_RATE + (1 - _LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * done))
        warm = min(1.0, (self.progress.step + 1) / max(1, settings.warmup_steps))
        return settings.learning_rate * warm * (cosine if settings.schedule == "cosine" else 1.0)

    @torch.no_grad()
    def _update_average(self) -> None:
        """Average the weights; early steps count less, so that the start is forgotten."""
        step = self.progress.step + 1
        decay = min(self.settings.average, step / (step + 10))
        names, current = zip(*self.network.state_dict().items(), strict=True)
        torch._foreach_lerp_([self.average[name] for name in names], list(current), 1 - decay)

    def _validate(self, training_bits: float) -> None:
        bits = self.evaluate()
        progress = self.progress
        progress.validated = progress.seconds
        progress.history.append([round(progress.seconds), training_bits, bits])
        if self.processes.first:
            minutes = progress.seconds / 60
            unit = self.task.unit
            tqdm.write(f"{minutes:.0f} min, step {progress.step}: {bits:.3f} bits a {unit} on val")
            self._plot(training_bits, bits)
        if bits < progress.best_bits:
            progress.best_bits = bits
            self._write("best", bits)

    def _plot(self, training_bits: float, bits: float) -> None:
        if self.curves is None:
            return
        self.curves.losses(self.progress.step, self.task.unit, training_bits, bits, self._rate())
        with self._averaged():
            batch = self.task.val[-1].to(self.processes.device)
            self.curves.sequences(self.progress.step, self.network, batch)

    def _save(self) -> None:
        random_states = self.processes.gathered(random_state(self.processes.device))
        history = self.progress.history
        self._write("last", history[-1][-1] if history else math.inf)
        if self.processes.first:
            save_state(
                self.state_path, self.network, self.average, self.optimiser, self.progress, random_states
            )

    def _write(self, name: str, bits: float) -> None:
        if not self.processes.first:
            return
        notes = {
            f"val_bits_per_{self.task.unit}": f"{bits:.3f}",
            "steps": str(self.progress.step),
            "minutes": f"{self.progress.seconds / 60:.0f}",
            "samples_seen": str(self.progress.step * self.settings.batch),
            "seed": str(self.settings.seed),
        }
        save_checkpoint(self.out / f"{name}.safetensors", self.average, self.config, notes)


def main_from_cli(args: argparse.Namespace) -> int:
    """`floorgent train`."""
    config, settings = read_config(Path(args.config) if args.config else None)
    if args.minutes is not None:
        settings = replace(settings, minutes=float(args.minutes))
    out = Path(args.out)
    state = out / "state.safetensors"
    if state.exists() and not args.resume:
        raise ConfigError(f"{state}: a run is there already; go on with --resume or name another --out")
    processes = Processes.join()
    trainer = Trainer(out, config, settings, Path(args.data), processes)
    if args.resume:
        trainer.resume()
    elif args.start:
        trainer.start_from(Path(args.start))
    trainer.run()
    if processes.first:
        bits, unit = trainer.progress.best_bits, trainer.task.unit
        print(f"{out / 'best.safetensors'}: {bits:.3f} bits a {unit} on val")
    Processes.leave()
    return 0
