"""The training loop: likelihood of the unseen walls, with checkpoint, resume and validation."""

from __future__ import annotations

import argparse
import math
import os
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
import yaml
from tqdm import tqdm

from floorgent_ros.config import TrainingSettings
from floorgent_ros.errors import ConfigError, FloorgentError
from floorgent_ros.model.checkpoint import save_checkpoint
from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.network import Batch, FloorNet
from floorgent_ros.model.sequence import Layout
from floorgent_ros.plans.split import floors
from floorgent_ros.training.dataset import SampleFolder, batches, collate, prepare
from floorgent_ros.training.processes import Processes
from floorgent_ros.training.state import Progress, load_state, save_state

_LOWEST_RATE = 0.02  # of the peak, at the end of the schedule
_CLIP = 1.0  # gradient norm


class Trainer:
    """One run in a folder: ``state.safetensors`` to resume, ``best`` and ``last`` checkpoints.

    Several processes share each batch; the result is that of one process but for the order of sums.
    """

    def __init__(
        self,
        out: Path,
        config: ModelConfig,
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
        self.layout = Layout(config.levels, config.patch)
        self.samples = self._samples(data, "train", settings.samples, settings.seed)
        self.val = self._val_batches(self._samples(data, "val", settings.val_samples, settings.seed + 1))
        torch.manual_seed(settings.seed)
        self.network = FloorNet(config).to(self.processes.device)
        if not self.processes.first:
            torch.manual_seed(settings.seed + 7919 * self.processes.rank)  # dropout of its own
        self.parallel = self.processes.parallel(self.network)
        self.average = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(),
            settings.learning_rate,
            betas=(0.9, 0.98),
            weight_decay=settings.weight_decay,
        )
        self.progress = Progress()

    @property
    def state_path(self) -> Path:
        """The resumable state's file."""
        return self.out / "state.safetensors"

    def resume(self) -> None:
        """Go on from the folder's state."""
        self.progress = load_state(
            self.state_path, self.network, self.average, self.optimiser, self.processes.rank
        )

    def run(self) -> Progress:
        """Train until the settings' minutes are used; returns the progress."""
        settings, progress = self.settings, self.progress
        stream = batches(
            self.samples,
            self.layout,
            settings.batch,
            self.config.max_segments,
            settings.seed,
            progress.step,
            self._share,
        )
        total = settings.minutes * 60
        shown = round(total)
        bar = tqdm(
            total=shown,
            initial=round(progress.seconds),
            unit="s",
            desc="training",
            disable=not self.processes.first,
        )
        saved = validated = progress.seconds
        bits = math.nan
        while progress.seconds < total:
            begun = time.monotonic()
            bits = self._step(next(stream), bits)
            progress.step += 1
            progress.seconds += self.processes.of_first(time.monotonic() - begun)
            bar.update(min(round(progress.seconds), shown) - bar.n)
            bar.set_postfix(
                step=progress.step, bits=f"{bits:.2f}", val=f"{progress.best_bits:.2f}", refresh=False
            )
            if progress.seconds - validated >= settings.val_minutes * 60:
                validated = progress.seconds
                self._validate(bits)
            if progress.seconds - saved >= settings.checkpoint_minutes * 60:
                saved = progress.seconds
                self._save()
        bar.close()
        self._validate(bits)
        self._save()
        return progress

    def evaluate(self) -> float:
        """Bits per unseen wall of the averaged weights on the validation samples (stops included).

        Every process scores its share of the samples.
        """
        kept = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        self.network.load_state_dict(self.average)
        self.network.eval()
        sums = torch.zeros(2, dtype=torch.float64)  # nats, walls
        with torch.inference_mode():
            for batch in self.val[self._share]:
                nats = self.network(batch.to(self.processes.device)).nats.sum()
                sums += torch.tensor([float(nats), float(batch.lengths.sum())])
        self.network.train()
        self.network.load_state_dict(kept)
        nats, walls = self.processes.total(sums.to(self.processes.device)).tolist()
        return nats / walls / math.log(2)

    @property
    def _share(self) -> slice:
        """This process's part of what is divided among the processes."""
        return slice(self.processes.rank, None, self.processes.count)

    def _step(self, batch: Batch, smoothed: float) -> float:
        """One optimiser step; returns the smoothed training bits per wall."""
        settings = self.settings
        for group in self.optimiser.param_groups:
            group["lr"] = self._rate()
        batch = batch.to(self.processes.device)
        losses = self.parallel(batch)
        walls = self.processes.total(batch.lengths.sum()).clamp(min=1)  # of all processes
        nats = losses.nats.sum() * self.processes.count / walls  # gradients are averaged over processes
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
        """Linear warm-up by step, then a cosine over the run's time."""
        settings = self.settings
        done = min(1.0, self.progress.seconds / (settings.minutes * 60))
        cosine = _LOWEST_RATE + (1 - _LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * done))
        warm = min(1.0, (self.progress.step + 1) / max(1, settings.warmup_steps))
        return settings.learning_rate * cosine * warm

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
        progress.history.append([round(progress.seconds), training_bits, bits])
        if self.processes.first:
            minutes = progress.seconds / 60
            tqdm.write(f"{minutes:.0f} min, step {progress.step}: {bits:.3f} bits a wall on val")
        if bits < progress.best_bits:
            progress.best_bits = bits
            self._write("best", bits)

    def _save(self) -> None:
        random_states = self.processes.gathered(torch.get_rng_state())
        self._write("last", self.progress.best_bits)
        if self.processes.first:
            save_state(
                self.state_path, self.network, self.average, self.optimiser, self.progress, random_states
            )

    def _write(self, name: str, bits: float) -> None:
        if not self.processes.first:
            return
        notes = {
            "val_bits_per_wall": f"{bits:.3f}",
            "steps": str(self.progress.step),
            "minutes": f"{self.progress.seconds / 60:.0f}",
            "samples_seen": str(self.progress.step * self.settings.batch),
            "seed": str(self.settings.seed),
        }
        save_checkpoint(self.out / f"{name}.safetensors", self.average, self.config, notes)

    def _samples(self, data: Path, split: str, count: int, seed: int) -> SampleFolder:
        folder = self.out / "samples" / split
        if self.processes.first and not (folder / "offsets.npy").is_file():
            prepare(folder, floors(data, split), count, self.config.horizon_m, seed, os.cpu_count() or 1)
        self.processes.wait()
        return SampleFolder(folder)

    def _val_batches(self, samples: SampleFolder) -> list[Batch]:
        order = samples.lengths.argsort(kind="stable").tolist()
        size = self.settings.batch
        groups: list[list[int]] = [order[first : first + size] for first in range(0, len(order), size)]
        return [
            collate([samples[i] for i in group], self.layout, self.config.max_segments) for group in groups
        ]


def read_config(path: Path | None) -> tuple[ModelConfig, TrainingSettings]:
    """Read ``model:`` and ``training:`` of a YAML file; what it leaves out keeps its default."""
    if path is None:
        return ModelConfig(), TrainingSettings()
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path}: not a readable training configuration ({reason})") from None
    if not isinstance(values, dict) or not all(isinstance(part, dict | None) for part in values.values()):
        raise ConfigError(f"{path}: give sections model and training, each with settings by name")
    unknown = set(values) - {"model", "training"}
    if unknown:
        raise ConfigError(f"{path}: unknown section {sorted(unknown)}; use model and training")
    return _filled(ModelConfig(), values.get("model"), path), _filled(
        TrainingSettings(), values.get("training"), path
    )


def _filled(defaults: Any, values: dict[str, Any] | None, path: Path) -> Any:
    known = {item.name for item in fields(defaults)}
    unknown = set(values or {}) - known
    if unknown:
        raise ConfigError(f"{path}: unknown setting {sorted(unknown)}; use {', '.join(sorted(known))}")
    return replace(defaults, **{k: tuple(v) if isinstance(v, list) else v for k, v in (values or {}).items()})


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
    trainer.run()
    if processes.first:
        print(f"{out / 'best.safetensors'}: {trainer.progress.best_bits:.3f} bits a wall on val")
    Processes.leave()
    return 0
