"""Drawing floor plans (section IV-C): from nothing, a prompt of segments or an image; and beam search.

Only grammatical sequences are drawn: what may not follow is masked before the draw. Every sequence stops by
itself. A prompt goes through the network once and stays in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floorgent_ros.errors import ConfigError
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.model.paper.vocabulary import STOP
from floorgent_ros.model.sampling import Nucleus

Levels = NDArray[np.int64]
GREEDY = Nucleus(top_k=1)


@dataclass(frozen=True, eq=False)
class Given:
    """What is known before drawing: (B, C, C) bool images, or none; (B, k, 4) levels that are completed.

    All samples of a batch have prompts of one length; without images and prompt a batch is one.
    """

    images: NDArray[np.bool_] | None = None
    prompt: Levels | None = None

    @property
    def size(self) -> int:
        """B."""
        known = self.images if self.images is not None else self.prompt
        return 1 if known is None else len(known)


@torch.inference_mode()
def draw(
    network: SequenceNet,
    count: int,
    seed: int,
    *,
    given: Given | None = None,
    nucleus: Nucleus | None = None,
    first: int = 0,
) -> list[Levels]:
    """Draw `count` sequences for each of B samples: B · count arrays (n, 4) of levels, the prompt included.

    Sequence k of a sample, counted from `first`, depends on the seed, its sample's place and k, not on count.
    Raises `ConfigError` for a network that needs an image and gets none.
    """
    given = given or Given()
    context, tokens = _begin(network, given, count)
    vocabulary, nucleus = network.vocabulary, nucleus or Nucleus()
    length = vocabulary.per_segment * network.config.max_segments
    uniform = _uniforms(given.size, range(first, first + count), length + 1, seed).to(tokens.device)
    state = network.decoder.begin(len(tokens), length, context)
    logits = network.decoder.advance(tokens, state)  # type: ignore[arg-type]
    alive = torch.ones(len(tokens), dtype=torch.bool, device=tokens.device)
    while tokens.shape[1] < length:
        index = tokens.shape[1]
        logits = logits.masked_fill(~vocabulary.allowed(index, tokens), -torch.inf)
        chosen = torch.where(alive, nucleus.pick(logits, uniform[index]), STOP)
        alive = alive & (chosen != STOP)
        tokens = torch.cat([tokens, chosen[:, None]], 1)
        if not bool(alive.any()):
            break
        logits = network.decoder.advance(chosen[:, None], state)  # type: ignore[arg-type]
    return [vocabulary.decode(row).numpy() for row in tokens.cpu()]


@torch.inference_mode()
def beam_search(network: SequenceNet, width: int, *, given: Given | None = None) -> tuple[Levels, float]:
    """The likeliest sequence found with `width` beams and its nats, prompt left out, grammar's mask included.

    One beam is greedy search. The greedy sequence keeps a place among more beams whatever its rank, so the
    result is never less likely than it. Raises `ConfigError` for more than one sample at a time.
    """
    given = given or Given()
    if given.size != 1:
        raise ConfigError(f"beam search of {given.size} samples: give one at a time")
    context, tokens = _begin(network, given, width)
    vocabulary = network.vocabulary
    length = vocabulary.per_segment * network.config.max_segments
    state = network.decoder.begin(width, length, context)
    logits = network.decoder.advance(tokens, state)  # type: ignore[arg-type]
    nats = torch.full((width,), torch.inf, device=tokens.device)
    nats[0] = 0.0  # beam 0 is the greedy one; the others are copies of it until they part
    best: tuple[float, Tensor] = (float("inf"), tokens[0])
    greedy = True  # has not stopped yet
    while tokens.shape[1] < length:
        mask = vocabulary.allowed(tokens.shape[1], tokens)
        step = -logits.float().masked_fill(~mask, -torch.inf).log_softmax(-1)
        rows, chosen, nats = _extend(nats, step, width, greedy)
        tokens = torch.cat([tokens[rows], chosen[:, None]], 1)
        stopped = chosen == STOP
        for row in torch.nonzero(stopped)[:, 0].tolist():
            best = min(best, (float(nats[row]), tokens[row]), key=lambda found: found[0])
        greedy = greedy and not bool(stopped[0])
        nats = nats.masked_fill(stopped, torch.inf)
        if float(nats.min()) >= best[0]:  # nothing that goes on can become likelier
            break
        network.decoder.reorder(state, rows)  # type: ignore[arg-type]
        logits = network.decoder.advance(chosen[:, None], state)  # type: ignore[arg-type]
    if float(nats.min()) < best[0]:  # ran to the longest sequence, which needs no stop
        best = (float(nats.min()), tokens[int(nats.argmin())])
    return vocabulary.decode(best[1].cpu()).numpy(), best[0]


def _extend(nats: Tensor, step: Tensor, width: int, greedy: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, tokens, nats of the best continuations; while beam 0 is the greedy one, its best is first."""
    total = (nats[:, None] + step).nan_to_num(nan=torch.inf, posinf=torch.inf)  # (width, V)
    size = step.shape[-1]
    found, index = total.flatten().topk(width + 1, largest=False)
    if greedy:
        own = int(step[0].argmin())
        others = index != own
        index = torch.cat([index.new_tensor([own]), index[others][: width - 1]])
        found = total.flatten()[index]
    index, found = index[:width], found[:width]
    return torch.div(index, size, rounding_mode="floor"), index % size, found


def _begin(network: SequenceNet, given: Given, count: int) -> tuple[Tensor | None, Tensor]:
    """Context (B · count, S, E) and prompt tokens (B · count, k)."""
    config, device = network.config, next(network.parameters()).device
    if (given.images is None) != (config.observation == "none"):
        needs = "needs an image" if given.images is None else "takes no image"
        raise ConfigError(f"the network's observation is {config.observation!r}: it {needs}")
    images = torch.zeros(given.size, 0, 0) if given.images is None else torch.from_numpy(given.images)
    context = network.context(images.to(device))
    prompt = np.zeros((given.size, 0, 4), np.int64) if given.prompt is None else given.prompt
    if prompt.shape[1] >= config.max_segments:
        raise ConfigError(f"a prompt of {prompt.shape[1]} segments: use fewer than {config.max_segments}")
    lengths = torch.full((given.size,), prompt.shape[1])
    tokens = network.vocabulary.encode(torch.from_numpy(prompt), lengths)[:, :-1].to(device)
    if context is not None:
        context = context.repeat_interleave(count, 0)
    return context, tokens.repeat_interleave(count, 0)


def _uniforms(samples: int, indices: range, steps: int, seed: int) -> Tensor:
    """(steps, samples · len(indices)) numbers in [0, 1)."""
    draws = [
        np.random.default_rng((seed, sample, index)).random(steps, np.float32)
        for sample in range(samples)
        for index in indices
    ]
    return torch.from_numpy(np.stack(draws, -1))
