"""`floorgent replay`: a recorded bag → what the node would have predicted, as a bag and an animation."""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from tqdm import tqdm

from floorgent_ros.config import NodeSettings, PredictorSettings
from floorgent_ros.errors import BagError, FloorgentError
from floorgent_ros.whole_file import check_file, check_folder_of

if TYPE_CHECKING:
    from floorgent_ros.bags.replay import Replay, Replayed


def run(options: argparse.Namespace) -> int:
    """Replay as the options say; raises `FloorgentError`."""
    try:
        from floorgent_ros.bags.recording import Recording
    except ModuleNotFoundError as error:
        raise FloorgentError(f"{error.name} is not installed: pip install rosbags") from None
    _check(options)
    settings = NodeSettings(min_travel=options.min_travel, max_rate=options.max_rate)
    wanted = PredictorSettings.of(options)
    with _terminated(), Recording.open(options.bag) as recording:
        source = _sources(recording, options)
        if (patches := f"{options.map_topic}_updates") in recording.types:
            print(f"floorgent: {patches} is left out: the node predicts on updates, too", file=sys.stderr)

        from floorgent_ros.bags.replay import Replay
        from floorgent_ros.predictor import DistancePredictor

        predictor = DistancePredictor.from_checkpoint(
            options.checkpoint, device=options.device, settings=wanted
        )
        replay = Replay(recording, options.map_topic, source, predictor, settings)
        summary = _replay(replay, options)
    print(json.dumps(summary) if options.json else _lines(summary, predictor.description, options))
    return 0


def _sources(recording: Any, options: argparse.Namespace) -> Any:
    """The pose's source, once the map's topic has been found in the bag."""
    from floorgent_ros.bags.poses import pose_source
    from floorgent_ros.bags.recording import MAP_TYPE

    maps = recording.topics_of(MAP_TYPE)
    if options.map_topic not in maps:
        found = f"the bag has maps on {', '.join(maps)}" if maps else "the bag has none"
        raise BagError(f"{options.bag}: no map on {options.map_topic} ({MAP_TYPE}): {found}")
    try:
        return pose_source(recording, options.pose_topic, options.base_frame)
    except BagError as error:
        raise BagError(f"{options.bag}: {error}") from None


def _replay(replay: Replay, options: argparse.Namespace) -> dict[str, Any]:
    """Predict, write what is asked for, and sum up."""
    from floorgent_ros.bags.film import Film
    from floorgent_ros.bags.output import PredictionBag

    namespace = options.map_topic.rpartition("/")[0]
    film = Film() if options.gif else None
    seconds: list[float] = []
    with ExitStack() as stack:
        bag = None
        if options.out:
            bag = stack.enter_context(
                PredictionBag.create(
                    options.out,
                    replay.recording.store,
                    replay.recording.storage,
                    namespace,
                    replay.settings.distance_map_max_m,
                )
            )
        for replayed in _shown(replay):
            seconds.append(replayed.seconds)
            if bag:
                bag.write(replayed)
            if film:
                film.add(replayed)
        if not seconds:
            raise BagError(f"{options.bag}: nothing to predict: {replay.missing or 'it has no messages'}")
        if film:
            film.save(options.gif)
    duration_s = (replay.recording.end_ns - replay.recording.start_ns) * 1e-9
    return {
        "bag_seconds": round(duration_s, 3),
        "maps": replay.maps,
        "refused_maps": replay.refused,
        "poses": replay.poses,
        "predictions": len(seconds),
        "median_s": round(statistics.median(seconds), 4),
        "longest_s": round(max(seconds), 4),
        "last_refusal": replay.refusal,
    }


def _shown(replay: Replay) -> Iterator[Replayed]:
    """The predictions, with a bar that follows the bag's time."""
    start_ns = replay.recording.start_ns
    seconds = (replay.recording.end_ns - start_ns) * 1e-9
    form = "{desc:<20}{bar:30} {n:.0f}/{total:.0f} s of the bag  {postfix}"
    with tqdm(total=seconds, bar_format=form, desc="replaying", file=sys.stderr, disable=None) as bar:
        for count, replayed in enumerate(replay.run(), 1):
            bar.n = min((replay.now_ns - start_ns) * 1e-9, seconds)
            bar.set_postfix_str(f"{count} predictions")
            yield replayed


def _check(options: argparse.Namespace) -> None:
    """Refuse before the work what could not be written after it."""
    if options.out:
        check_folder_of(options.out, "--out ")
    if options.out and options.out.exists():
        raise FloorgentError(f"--out {options.out}: exists; give a new name or remove it")
    if options.gif:
        check_file(options.gif, "--gif ")


@contextmanager
def _terminated() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does, so that nothing half-written stays."""

    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _lines(summary: dict[str, Any], description: str, options: argparse.Namespace) -> str:
    refused = f", {summary['refused_maps']} refused" if summary["refused_maps"] else ""
    heard = f"{summary['maps']} maps{refused}, {summary['poses']} poses"
    lines = [
        f"model        {description}",
        f"bag          {summary['bag_seconds']:.1f} s, {heard}",
        f"predictions  {summary['predictions']}, {summary['median_s']:.2f} s each at the median",
    ]
    lines += [f"refused      {summary['last_refusal']}"] if summary["last_refusal"] else []
    lines += [f"written      {options.out}"] if options.out else []
    lines += [f"animation    {options.gif}"] if options.gif else []
    return "\n".join(lines)
