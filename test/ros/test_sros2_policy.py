"""config/sros2/policy.xml allows what the node does, all of it and nothing else."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import sros2_policy
from ros_harness import Bench, FakePredictor

TEXT = sros2_policy.FILE.read_text(encoding="utf-8")


def test_it_names_exactly_the_topics_and_services_of_the_running_node(bench: Bench) -> None:
    node = bench.floorgent(FakePredictor(), namespace="robot7", pose_source="pose")
    watcher = bench.node("watcher")
    allowed = {kind: set(names) for kind, names in sros2_policy.names(TEXT).items()}
    allowed["topics", "subscribe"] -= set(sros2_policy.OPTIONAL_TOPICS)

    def found() -> dict[tuple[str, str], set[str]]:
        if ("floorgent", "/robot7") not in watcher.get_node_names_and_namespaces():
            return {}
        return {kind: names for kind, names in sros2_policy.endpoints(watcher, "/robot7").items() if names}

    # the graph grows while the node is discovered: wait for what is allowed, then nothing may be beyond it
    bench.until(
        lambda: (
            {kind: allowed[kind] - found().get(kind, set()) for kind in allowed}
            == {kind: set() for kind in allowed}
        ),
        f"what the policy allows; run tools/sros2_policy.py --write\n{allowed}\n{found()}",
        20.0,
    )
    bench.spin_for(1.0)
    assert found() == allowed, "run tools/sros2_policy.py --write"
    assert node.get_name() == sros2_policy.NODE


def test_it_is_a_policy_without_wildcards() -> None:
    root = ET.fromstring(TEXT)
    assert (root.tag, root.get("version")) == ("policy", "0.2.0")
    assert [enclave.get("path") for enclave in root.iter("enclave")] == ["/floorgent"]
    profile = next(root.iter("profile"))
    assert (profile.get("ns"), profile.get("node")) == ("/", "floorgent")
    assert {tuple(group.attrib.values()) for group in profile} == {("ALLOW",)}
    assert not [item.text for item in root.iter() if item.text and "*" in item.text]
    assert set(sros2_policy.OPTIONAL_TOPICS) <= sros2_policy.names(TEXT)["topics", "subscribe"]


def test_the_file_is_what_the_tool_writes() -> None:
    found = sros2_policy.names(TEXT)
    found["topics", "subscribe"] -= set(sros2_policy.OPTIONAL_TOPICS)
    assert sros2_policy.policy(found) == TEXT
