"""Drawing floor plans (section IV-C): from nothing, a prompt of segments or an image; and beam search.

Only grammatical sequences are drawn: what may not follow is masked before the draw. Every sequence stops by
itself. Images and prompts go through the network once, however many sequences are drawn from them.

There are fewer steps than tokens: `line` is certain and goes in together with the token before it. So does
`move`; where `stop` is drawn in its place the sequence is over, and nobody reads what followed. Sequences
that are finished leave the batch. All this changes no more than rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floorgent_ros.errors import ConfigError
from floorgent_ros.model.paper.image import Memory
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.model.paper.vocabulary import LINE, MOVE, STOP
from floorgent_ros.model.sampling import Nucleus

Levels = NDArray[np.int64]
GREEDY = Nucleus(top_k=1)


@dataclass(frozen=True, eq=False)
class Given:
    """What is known before drawing: (B, C, C) bool images, or none; (B, k, 4) levels that are completed.

    All samples of a batch have prompts of one length; without images and prompt a batch is one. beyond:
    (B, k, 2) as `unseen.beyond`, for a network that is told it.
    """

    images: NDArray[np.bool_] | None = None
    prompt: Levels | None = None
    beyond: Levels | None = None

    @property
    def size(self) -> int:
        """B."""
        known = self.images if self.images is not None else self.prompt
        return 1 if known is None else len(known)


@dataclass(frozen=True, eq=False)
class Seen:
    """What drawing needs of `Given`: the images, if there are any, and (B, k) prompt tokens."""

    memory: Memory | None
    prompt: Tensor


@torch.inference_mode()
def look(network: SequenceNet, given: Given) -> Seen:
    """Encode images and prompts, once for all that is drawn from them.

    Raises `ConfigError` for a network that needs an image and gets none, and the other way round.
    """
    config, device = network.config, next(network.parameters()).device
    if (given.images is None) != (config.observation == "none"):
        needs = "needs an image" if given.images is None else "takes no image"
        raise ConfigError(f"the network's observation is {config.observation!r}: it {needs}")
    images = torch.zeros(given.size, 0, 0) if given.images is None else torch.from_numpy(given.images)
    prompt = np.zeros((given.size, 0, 4), np.int64) if given.prompt is None else given.prompt
    if prompt.shape[1] >= config.max_segments:
        raise ConfigError(f"a prompt of {prompt.shape[1]} segments: use fewer than {config.max_segments}")
    lengths = torch.full((given.size,), prompt.shape[1])
    tokens = network.vocabulary.encode(torch.from_numpy(prompt), lengths)[:, :-1].to(device)
    beyond = None if given.beyond is None else torch.from_numpy(given.beyond).to(device)
    return Seen(network.decoder.remember(network.shown(images.to(device), beyond)), tokens)


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
    return draw_from(network, look(network, given or Given()), count, seed, nucleus=nucleus, first=first)


@torch.inference_mode()
def draw_from(
    network: SequenceNet,
    seen: Seen,
    count: int,
    seed: int,
    *,
    nucleus: Nucleus | None = None,
    first: int = 0,
    segments: int | None = None,
) -> list[Levels]:
    """As `draw`, of what was looked at; segments: at most so many, by default as many as the network can.

    Fewer steps than tokens, the same sequences up to rounding: a token that is certain goes in together with
    the one before it, and so does `move`, which nobody reads where `stop` is drawn in its place. What is
    finished leaves the batch.
    """
    length = network.vocabulary.per_segment * (segments or network.config.max_segments)
    numbers = uniforms(len(seen.prompt), range(first, first + count), length, seed)
    drawn = Drawing(network, seen, numbers, nucleus or Nucleus()).run()
    return [network.vocabulary.decode(row).numpy() for row in drawn.cpu()]


class Drawing:
    """Sequences that are drawn together, in the rows of a batch that finished ones leave."""

    def __init__(self, network: SequenceNet, seen: Seen, numbers: Tensor, nucleus: Nucleus) -> None:
        """numbers: uniforms (T, B · count) for T tokens."""
        self.decoder, self.vocabulary, self.nucleus = network.decoder, network.vocabulary, nucleus
        self.network = network
        self.numbers = numbers.to(seen.prompt.device)
        samples, self.index = seen.prompt.shape  # of the next token
        length, batch = self.numbers.shape
        state: Any = self.decoder.begin(samples, length, seen.memory)
        if self.index > 0:
            self.decoder.extend(seen.prompt[:, :-1], state, 1)
        state.spread(batch // samples)
        self.state = state
        self.tokens = seen.prompt.new_full((batch, length), STOP)
        self.tokens[:, : self.index] = seen.prompt.repeat_interleave(batch // samples, 0)
        self.rows = torch.arange(batch, device=seen.prompt.device)  # of `tokens` that are unfinished

    def run(self) -> Tensor:
        """Draw until all have stopped or no token is left; (B · count, T) tokens, stops after the end."""
        while self.index < self.tokens.shape[1] and len(self.rows) > 0:
            self._step()
        return self.tokens

    def _step(self) -> None:
        """Put the latest token in and draw the next, or the next two where the first may be foreseen."""
        latest = self.tokens[self.rows, max(self.index - 1, 0) : self.index]
        foreseen = self.vocabulary.foreseen(self.index)
        if foreseen is None:
            self._put(self._pick(self.decoder.extend(latest, self.state, 1)[:, 0]))
            return
        ahead = latest.new_full((len(latest), 1), foreseen)
        before, after = self.decoder.extend(torch.cat([latest, ahead], 1), self.state, 2).unbind(1)
        kept = self._put(ahead[:, 0] if foreseen == LINE else self._pick(before))
        if kept:
            self._put(self._pick(after if len(kept) == len(after) else after[kept]))

    def _pick(self, logits: Tensor) -> Tensor:
        """(n, V) logits of the unfinished sequences' next tokens → (n,) tokens."""
        allowed = self.vocabulary.allowed(self.index, self.tokens[self.rows, : self.index])
        logits = logits.masked_fill(~allowed, -torch.inf)
        return pick(self.network, self.index, logits, self.nucleus, self.numbers[self.index, self.rows])

    def _put(self, chosen: Tensor) -> list[int]:
        """Write the next tokens (n,); which of the rows go on, in the order that they have from now on."""
        self.tokens[self.rows, self.index] = chosen
        kept = list(range(len(chosen)))
        if self.vocabulary.may_stop(self.index):
            going = (chosen != STOP).tolist()
            kept = _moved_up(going)
            if len(kept) < len(going):
                self.state.keep(kept)
                self.rows = self.rows[kept]
        self.index += 1
        return kept


def pick(network: SequenceNet, index: int, logits: Tensor, nucleus: Nucleus, uniform: Tensor) -> Tensor:
    """(n, V) logits of the tokens at `index`, of which some may be −inf, and (n,) uniforms → (n,) tokens.

    Where `SequenceConfig.plain_stop` holds, no nucleus cuts the stop, and a further wall gets its log odds.
    """
    if network.config.plain_stop and network.vocabulary.may_stop(index):
        logits = logits.clone()
        logits[:, MOVE] += nucleus.wall_log_odds
        nucleus = Nucleus(top_p=1.0)
    return nucleus.pick(logits, uniform)


def _moved_up(going: list[bool]) -> list[int]:
    """The rows that go on, the last ones in the places of finished ones, the rest where they are."""
    kept = sum(going)
    late = [row for row in range(kept, len(going)) if going[row]]
    return [row if going[row] else late.pop() for row in range(kept)]


@torch.inference_mode()
def beam_search(network: SequenceNet, width: int, *, given: Given | None = None) -> tuple[Levels, float]:
    """The likeliest sequence found with `width` beams and its nats, prompt left out, grammar's mask included.

    One beam is greedy search. The greedy sequence keeps a place among more beams whatever its rank, so the
    result is never less likely than it. Raises `ConfigError` for more than one sample at a time.
    """
    given = given or Given()
    if given.size != 1:
        raise ConfigError(f"beam search of {given.size} samples: give one at a time")
    seen, vocabulary, decoder = look(network, given), network.vocabulary, network.decoder
    tokens = seen.prompt.expand(width, -1)
    length = vocabulary.per_segment * network.config.max_segments
    state: Any = decoder.begin(width, length, seen.memory)
    logits = decoder.extend(tokens, state, 1)[:, 0]
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
        state.reorder(rows)
        logits = decoder.extend(chosen[:, None], state, 1)[:, 0]
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


def uniforms(samples: int, indices: range, steps: int, seed: int) -> Tensor:
    """(steps, samples · len(indices)) numbers in [0, 1)."""
    draws = [
        np.random.default_rng((seed, sample, index)).random(steps, np.float32)
        for sample in range(samples)
        for index in indices
    ]
    return torch.from_numpy(np.stack(draws, -1))
