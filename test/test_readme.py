from __future__ import annotations

import ast
import importlib.util
import re
from dataclasses import fields
from pathlib import Path

import pytest

from floorgent_ros.config import NodeSettings, ObservationSettings, PredictorSettings

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"

if not README.is_file():
    pytest.skip("the tests run on an installed package, without its README", allow_module_level=True)


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("readme_tables", ROOT / "tools" / "readme_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def text():
    return README.read_text(encoding="utf-8")


def test_the_parameter_table_is_that_of_the_dataclasses(tables, text):
    assert tables.updated(text) == text, "run tools/readme_tables.py --write"
    for group in (NodeSettings, PredictorSettings, ObservationSettings):
        for item in fields(group):
            row = next(line for line in text.splitlines() if line.startswith(f"| `{item.name}` |"))
            assert str(item.default).lower() in row.lower()
            assert item.metadata["text"] in row


def test_a_changed_default_is_noticed(tables, text):
    changed = text.replace("| `max_rate` | `1.0` |", "| `max_rate` | `2.0` |")
    assert changed != text
    assert tables.updated(changed) == text
    with pytest.raises(ValueError, match="README"):
        tables.updated("# no marks")


def test_topics_are_the_nodes(text):
    outputs = pytest.importorskip("floorgent_ros.ros.outputs")
    rows = dict(re.findall(r"^\| `(floorgent/\w+)` \| (\S+) ", text, re.MULTILINE))
    expected = {topic: message_name(kind) for topic, (kind, _) in outputs.VISUALS.items()}
    expected[outputs.DISTANCE_TOPIC] = "floorgent_ros/DistanceGrid"
    expected[outputs.TIMINGS_TOPIC] = "floorgent_ros/StageTimings"
    services = pytest.importorskip("floorgent_ros.ros.services")
    expected[services.DISTANCES_SERVICE] = "floorgent_ros/GetDistances"
    expected[services.PREDICT_SERVICE] = "floorgent_ros/Predict"
    expected[services.ENABLE_SERVICE] = "std_srvs/SetBool"
    assert rows == expected


def test_launch_arguments_are_the_launch_files(text):
    source = (ROOT / "launch" / "predict.launch.py").read_text(encoding="utf-8")
    names = set(re.findall(r'argument\("(\w+)"', source))
    given = re.search(r"^PARAMETERS = (\(.*?\))$", source, re.MULTILINE | re.DOTALL).group(1)
    names |= set(ast.literal_eval(given))
    listed = re.search(r"Launch arguments: (.*?)\(", text, re.DOTALL).group(1)
    assert set(re.findall(r"`(\w+)`", listed)) == names


def test_links_lead_to_files(text):
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    targets = [target for target in re.findall(r"\]\(([^)#]+)\)", prose) if "://" not in target]
    assert "docs/images/demo.png" in targets
    assert [target for target in targets if not (ROOT / target).is_file()] == []


def test_python_examples_compile(text):
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        compile(block, "README.md", "exec")


def message_name(kind):
    return f"{kind.__module__.split('.')[0]}/{kind.__name__}"
