"""pip's front to the CMake build: what colcon would install lands in the same places of pip's prefix.

Metadata stands in pyproject.toml. An editable install takes the Python sources from the working tree and
puts only what the build makes (the message, its libraries, executables, shared files) into the prefix.
"""

import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from setuptools import Distribution, setup  # isort: skip  (it must come first: it brings distutils along)
from distutils.command.install_data import install_data  # isort: skip

ROOT = Path(__file__).resolve().parent
PACKAGE = "floorgent_ros"
BUILD = ROOT / "build" / f"pip-{sys.implementation.cache_tag}"


def cmake_install() -> Path:
    """Build and install the ROS package into a stage and return it."""
    stage = BUILD / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    build = str(BUILD / "cmake")
    if _configured_for(BUILD / "cmake") not in (None, ROOT):  # the folder was moved or copied
        shutil.rmtree(build)
    options = {
        "BUILD_TESTING": "OFF",
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_INSTALL_PREFIX": stage,
        "CMAKE_PREFIX_PATH": sys.prefix,
        "CMAKE_PROJECT_INCLUDE": ROOT / "cmake" / "wheel_underlay.cmake",
        "Python3_EXECUTABLE": sys.executable,
    }
    # The generators are scripts that find their packages through ament's index and their Python through PATH.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "AMENT_PREFIX_PATH": sys.prefix, "PATH": path}
    definitions = [f"-D{name}={value}" for name, value in options.items()]
    for arguments in (
        ["-S", str(ROOT), "-B", build, "-Wno-dev", *definitions],
        ["--build", build, "--parallel", str(os.cpu_count())],
        ["--install", build],
    ):
        subprocess.run(["cmake", *arguments], check=True, env=environment)
    return stage


def _configured_for(build: Path) -> Path | None:
    """The source folder that CMake's cache names, if there is a cache."""
    cache = build / "CMakeCache.txt"
    lines = cache.read_text(encoding="utf-8").splitlines() if cache.is_file() else []
    homes = [line.partition("=")[2] for line in lines if line.startswith("CMAKE_HOME_DIRECTORY:")]
    return Path(homes[0]) if homes else None


def data_files(stage: Path) -> list[tuple[str, list[str]]]:
    """List the staged files by folder of the prefix, less what setuptools itself packs."""
    folders = defaultdict(list)
    for path in sorted(stage.rglob("*")):
        relative = path.relative_to(stage)
        place = relative.as_posix().partition("/site-packages/")[2]
        is_source = place == f"{PACKAGE}/__init__.py" or (place and (ROOT / place).is_file())
        if path.is_file() and not is_source and ".egg-info/" not in place:
            folders[str(relative.parent)].append(str(path))
    return list(folders.items())


class InstallBuiltFiles(install_data):
    """Runs the build when pip asks for the data files of a wheel, an editable one included."""

    def finalize_options(self) -> None:
        """Let the build decide what the data files are."""
        super().finalize_options()
        self.data_files = data_files(cmake_install())


class RosDistribution(Distribution):
    """A distribution with compiled files, which CMake makes."""

    def has_ext_modules(self) -> bool:
        """Wheels are of one platform and Python."""
        return True

    def has_data_files(self) -> bool:
        """Data files are known only after the build."""
        return True

    has_data = has_data_files  # the name under which an editable install asks


setup(
    distclass=RosDistribution,
    cmdclass={"install_data": InstallBuiltFiles},
    package_dir={"": "."},  # so that an editable install is one line in a .pth file, not an import hook
    data_files=[],
)
