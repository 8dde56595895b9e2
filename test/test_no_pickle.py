"""Nothing in the package or its tools can run code that a file or a message carries."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle"}
CALLS = {"eval", "exec", "torch.load", "torch.save", "torch.jit.load", "torch.hub.load", "os.system"}
CALLS |= {"yaml.load", "yaml.unsafe_load", "yaml.full_load", "pandas.read_pickle"}
NAMES = {"numpy": "np"}


def sources() -> list[Path]:
    folders = ("floorgent_ros", "launch", "tools")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def dotted(node: ast.expr) -> str:
    """``np.load`` for the expression np.load, however numpy was imported."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    name = node.id if isinstance(node, ast.Name) else ""
    return NAMES.get(name, name)


def faults(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            module = str(node.module)
            if module.partition(".")[0] in MODULES:
                yield module
            yield from (name for item in node.names if (name := f"{module}.{item.name}") in CALLS)
        elif isinstance(node, ast.Call):
            if dotted(node.func) in CALLS:
                yield dotted(node.func)
            for keyword in node.keywords:
                is_false = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                if keyword.arg == "allow_pickle" and not is_false:
                    yield "allow_pickle"
                if keyword.arg == "weights_only":
                    yield "weights_only"


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_source_unpickles_or_evaluates(path: Path) -> None:
    assert list(faults(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import torch\ntorch.load('x')",
        "from torch import load",
        "import numpy\nnumpy.load('x', allow_pickle=True)",
        "import numpy as np\nnp.load('x', allow_pickle=flag)",
        "import yaml\nyaml.load(text, Loader=yaml.Loader)",
        "eval('1')",
        "def late():\n    import joblib",
    ],
)
def test_a_fault_is_found(source: str) -> None:
    assert list(faults(source))


def test_what_is_allowed_passes() -> None:
    assert not list(faults("import numpy as np\nimport yaml\nnp.load('x')\nyaml.safe_load('1')\nnet.eval()"))


def test_weights_are_safetensors_alone() -> None:
    weights = [path for path in (ROOT / "floorgent_ros" / "weights").iterdir() if path.suffix != ".md"]
    assert weights
    for path in weights:
        assert path.suffix == ".safetensors"
        length = int.from_bytes(path.read_bytes()[:8], "little")
        assert path.read_bytes()[8:9] == b"{"
        assert 8 + length < path.stat().st_size
