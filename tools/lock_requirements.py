"""Write the exact versions that an environment holds, as a requirements file, to standard output.

``pip freeze`` will not do: the ROS wheels bring the ``egg-info`` of each ROS package along, which it lists
too although no registry has them.
"""

from __future__ import annotations

from importlib import metadata

HEADER = """\
# Exact versions of what requirements.in asks for. Written by 'make lock'.
# torch is the build of the index that pip is given, for the CPU or for CUDA; pip picks CUDA's own libraries.
"""
NOT_LOCKED = ("pip", "floorgent", "nvidia-", "cuda-", "triton")


def locked() -> list[str]:
    """Return ``name==version`` of every distribution that pip installed from an index, sorted."""
    pins = []
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"].lower().replace("_", "-")
        if distribution.read_text("INSTALLER") and not name.startswith(NOT_LOCKED):
            pins.append(f"{name}=={distribution.version.partition('+')[0]}")
    return sorted(pins)


if __name__ == "__main__":
    print(HEADER + "\n".join(locked()))
