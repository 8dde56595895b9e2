"""The executable `predict`: the node as a process, its signals and its exit codes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from floorgent_ros.errors import FloorgentError
from floorgent_ros.ros.failures import one_line

if TYPE_CHECKING:
    from floorgent_ros.ros.parameters import Settings
    from floorgent_ros.ros.worker import Predictor

EXIT_OK, EXIT_FAULT, EXIT_BAD_INPUT = 0, 1, 2
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(args: list[str] | None = None, load: Callable[[Settings], Predictor] | None = None) -> NoReturn:
    """Run the node until Ctrl-C or SIGTERM (exit code 0), or until it cannot go on.

    Then there is one line, and the code is 2 when it cannot start (parameters, checkpoint), 1 when its worker
    died later and a new process may do better.

    args: as for `rclpy.init`. load: makes the predictor, by default the one of the parameters. Ends the
    process: a prediction in progress is not waited for, nor is the interpreter, which takes seconds to tear
    down torch and may not do so under the feet of a thread that runs in it.
    """
    # Loading ROS and numba takes a second or two, in which there is nothing yet to clean up.
    for number in SIGNALS:
        signal.signal(number, lambda *_: os._exit(EXIT_OK))
    # When numba first runs it imports all of scipy.linalg where SciPy is installed (0.35 s), for dot products
    # that nothing here compiles.
    sys.modules.setdefault("scipy.linalg.cython_blas", None)  # type: ignore[arg-type]
    code = _run(args, load)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(args: list[str] | None, load: Callable[[Settings], Predictor] | None) -> int:
    import rclpy  # noqa: PLC0415
    from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor  # noqa: PLC0415

    from floorgent_ros.ros.floorgent_node import FloorgentNode, load_predictor  # noqa: PLC0415

    # From here rclpy's own handlers end the executor. These stand behind them, so that neither the first
    # nor a second signal (a terminal and ros2 launch both send one) raises KeyboardInterrupt. A signal that
    # comes while things are half built waits until they are whole.
    stopped: list[int] = []
    for number in SIGNALS:
        signal.signal(number, lambda received, _: stopped.append(received))
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        rclpy.init(args=args)
        executor = SingleThreadedExecutor()
        node = FloorgentNode(load or load_predictor)
    except (FloorgentError, RuntimeError) as error:  # wrong parameters or remappings
        print(f"floorgent: {one_line(error)}", file=sys.stderr)
        return EXIT_BAD_INPUT
    executor.add_node(node)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        executor.spin()
    except ExternalShutdownException:
        pass
    except Exception:
        if not stopped and rclpy.ok():
            raise
        # else a shutdown, ours or somebody else's, took the context away from what was going on: no fault
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
    if stopped or not node.failure:
        return EXIT_OK
    return EXIT_FAULT if node.was_ready else EXIT_BAD_INPUT


if __name__ == "__main__":
    main()
