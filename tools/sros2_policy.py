"""Write the SROS 2 policy of the node to config/sros2/policy.xml, from what the running node really has.

``python tools/sros2_policy.py --write`` starts the node in a namespace of its own on loopback, asks the ROS
graph for its topics and services, and writes them down; without ``--write`` they go to standard output.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "config" / "sros2" / "policy.xml"
NODE, NAMESPACE = "floorgent", "/sros2_policy"
DISCOVERY_S = 60.0
SETTLED_S = 3.0  # without a change of the graph

# Heard only by parameter or where a package is installed, so not in every graph.
OPTIONAL_TOPICS = {
    "/clock": "use_sim_time",
    "/tf": "pose_source tf",
    "/tf_static": "pose_source tf",
    "map_updates": "map_msgs",
}
HEADER = """\
<!-- What the node may do under SROS 2: exactly what it does. Written by tools/sros2_policy.py, compared with
     the running node by a test. Names without a leading slash are relative to the profile's ns: for a robot
     in a namespace change ns and the enclave's path; for a remapped topic (map_topic, pose_topic) its name.
     Optional: {optional}. -->
"""


def endpoints(watcher: Any, namespace: str) -> dict[tuple[str, str], set[str]]:
    """Names by kind of access, relative to the namespace where they lie in it; watcher: any rclpy node."""
    prefix = namespace.rstrip("/") + "/"
    found = {
        ("topics", "publish"): watcher.get_publisher_names_and_types_by_node(NODE, namespace),
        ("topics", "subscribe"): watcher.get_subscriber_names_and_types_by_node(NODE, namespace),
        ("services", "reply"): watcher.get_service_names_and_types_by_node(NODE, namespace),
        ("services", "request"): watcher.get_client_names_and_types_by_node(NODE, namespace),
    }
    absolute = {"/rosout", "/parameter_events", "/diagnostics", *OPTIONAL_TOPICS}
    return {
        kind: {
            name if name in absolute else name.removeprefix(prefix) if name.startswith(prefix) else name
            for name, _ in pairs
        }
        for kind, pairs in found.items()
    }


def policy(found: dict[tuple[str, str], set[str]]) -> str:
    """The policy file's text for these endpoints and the optional topics."""
    root = ET.Element("policy", version="0.2.0")
    enclave = ET.SubElement(ET.SubElement(root, "enclaves"), "enclave", path=f"/{NODE}")
    profile = ET.SubElement(ET.SubElement(enclave, "profiles"), "profile", ns="/", node=NODE)
    for (kind, access), names in found.items():
        wanted = names | set(OPTIONAL_TOPICS) if (kind, access) == ("topics", "subscribe") else names
        if wanted:
            group = ET.SubElement(profile, kind, {access: "ALLOW"})
            for name in sorted(wanted):
                ET.SubElement(group, kind.removesuffix("s")).text = name
    ET.indent(root)
    optional = ", ".join(f"{topic} ({why})" for topic, why in OPTIONAL_TOPICS.items())
    declaration = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return declaration + HEADER.format(optional=optional) + ET.tostring(root, encoding="unicode") + "\n"


def names(text: str) -> dict[tuple[str, str], set[str]]:
    """The endpoints that a policy allows, by kind of access."""
    profile = next(ET.fromstring(text).iter("profile"))
    found: dict[tuple[str, str], set[str]] = {}
    for group in profile:
        (access,) = group.attrib
        found[group.tag, access] = {str(item.text) for item in group}
    return found


def main(arguments: Iterable[str]) -> int:
    """Start the node, ask, and write."""
    os.environ.update(ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST")
    import rclpy  # noqa: PLC0415  after the environment

    command = [sys.executable, "-m", "floorgent_ros.ros.node", "--ros-args", "-r", f"__ns:={NAMESPACE}"]
    child = subprocess.Popen([*command, "-p", "pose_source:=pose"])
    try:
        with rclpy.init(args=[]):
            text = policy(_settled(rclpy.create_node("sros2_policy_watcher")))
    finally:
        child.terminate()
        child.wait(30)
    if "--write" in arguments:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


def _settled(watcher: Any) -> dict[tuple[str, str], set[str]]:
    """What the node has once nothing has been added for a while."""
    end, changed = time.monotonic() + DISCOVERY_S, time.monotonic()
    found: dict[tuple[str, str], set[str]] = {}
    while time.monotonic() < end:
        time.sleep(0.2)
        if (NODE, NAMESPACE) not in watcher.get_node_names_and_namespaces():
            continue
        now = endpoints(watcher, NAMESPACE)
        if now != found:
            changed, found = time.monotonic(), now
        complete = any(name.endswith("floorgent/distance") for name in found["topics", "publish"])
        if complete and time.monotonic() - changed > SETTLED_S:
            return found
    raise SystemExit(f"the node did not appear on this machine within {DISCOVERY_S:g} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
