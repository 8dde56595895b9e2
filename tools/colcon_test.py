"""Build and test the package with colcon in a folder of its own, on top of the virtual environment's wheels.

    .venv/bin/python tools/colcon_test.py FOLDER

FOLDER gets colcon's build/, install/ and log/. The exit code is 0 when the build succeeds and tests ran and
passed. With a ROS 2 install none of this is needed: ``colcon build`` and ``colcon test`` do.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PREFIX = Path(sys.prefix)


def underlay() -> dict[str, str]:
    """Return the environment in which CMake, the generators and the tests find the wheels' ROS packages."""
    environment = dict(os.environ)
    # The wheels set the library path when Python starts, once; here it is set for all programs.
    environment.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)
    libraries = [PREFIX / "lib", *sorted(PREFIX.glob("lib/python3*/site-packages/ros_*.libs"))]
    before = {
        "PATH": [PREFIX / "bin"],
        "AMENT_PREFIX_PATH": [PREFIX],
        "CMAKE_PREFIX_PATH": [PREFIX],
        "LD_LIBRARY_PATH": libraries,
    }
    for name, places in before.items():
        rest = [environment[name]] if environment.get(name) else []
        environment[name] = os.pathsep.join([*map(str, places), *rest])
    return environment


def colcon(verb: str, folder: Path, *arguments: str) -> None:
    """Run a verb of colcon on this package; CalledProcessError when it fails."""
    common = ["--base-paths", str(ROOT), "--build-base", "build", "--install-base", "install"]
    handlers = ["--event-handlers", "console_cohesion+", "console_direct-"]
    command = [str(PREFIX / "bin" / "colcon"), "--log-base", "log", verb, *common, *handlers, *arguments]
    subprocess.run(command, cwd=folder, env=underlay(), check=True)


def main() -> int:
    """Build, test, and report the tests' results."""
    parser = argparse.ArgumentParser(
        description="colcon build and colcon test on the virtual environment's wheels"
    )
    parser.add_argument("folder", type=Path, help="where build/, install/ and log/ go")
    folder = parser.parse_args().folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    definitions = (
        "-DBUILD_TESTING=ON",
        f"-DPython3_EXECUTABLE={sys.executable}",
        f"-DCMAKE_PROJECT_INCLUDE={ROOT / 'cmake' / 'wheel_underlay.cmake'}",
    )
    try:
        colcon("build", folder, "--cmake-args", *definitions)
        colcon("test", folder, "--return-code-on-test-failure")
    except subprocess.CalledProcessError as error:
        print(f"colcon_test: {' '.join(error.cmd[:4])} … ended with code {error.returncode}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
