"""The executable `predict`: the node as a process, its signals and its exit codes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from floorgent_ros.errors import FloorgentError
from floorgent_ros.ros.failures import one_line

if TYPE_CHECKING:
    from floorgent_ros.ros.floorgent_node import FloorgentNode
    from floorgent_ros.ros.parameters import Settings
    from floorgent_ros.ros.worker import Predictor

EXIT_OK, EXIT_BAD_INPUT = 0, 2
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(args: list[str] | None = None, load: Callable[[Settings], Predictor] | None = None) -> int:
    """Run the node until Ctrl-C or SIGTERM (exit code 0), or until it cannot go on (2, with one line).

    args: as for `rclpy.init`. load: makes the predictor, by default the one of the parameters.
    """
    # Loading ROS and numba takes a second or two, in which there is nothing yet to clean up.
    for number in SIGNALS:
        signal.signal(number, lambda *_: os._exit(EXIT_OK))
    import rclpy  # noqa: PLC0415
    from rclpy.executors import SingleThreadedExecutor  # noqa: PLC0415

    from floorgent_ros.ros.floorgent_node import FloorgentNode, load_predictor  # noqa: PLC0415

    # From here rclpy's own handlers end the executor. These stand behind them, so that neither the first
    # nor a second signal (a terminal and ros2 launch both send one) raises KeyboardInterrupt.
    stopped: list[int] = []
    for number in SIGNALS:
        signal.signal(number, lambda received, _: stopped.append(received))
    try:
        rclpy.init(args=args)
    except RuntimeError as error:  # remappings or parameters on the command line that rcl cannot read
        return _refused(error)
    node = None
    try:
        node = FloorgentNode(load or load_predictor)
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        if not stopped:
            executor.spin()
        code = EXIT_BAD_INPUT if node.failure else EXIT_OK
    except FloorgentError as error:
        code = _refused(error)
    except Exception:
        if rclpy.ok():
            raise
        code = EXIT_OK  # the shutdown took its context away from what was going on: that is no fault
    _close(node, code)
    return code


def _refused(error: Exception) -> int:
    print(f"floorgent: {one_line(error)}", file=sys.stderr)
    return EXIT_BAD_INPUT


def _close(node: FloorgentNode | None, code: int) -> None:
    """Free everything; a prediction (or an import of torch) in progress is not waited for."""
    import rclpy  # noqa: PLC0415

    idle = node is None or node.stop()
    if node is not None:
        node.destroy_node()
    rclpy.try_shutdown()
    if not idle:
        # the interpreter must not tear down torch under the feet of a thread that runs in it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
