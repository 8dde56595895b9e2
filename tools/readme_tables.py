"""Writes the README's table of parameters from the dataclasses that hold the defaults.

python tools/readme_tables.py            check that README.md has them
python tools/readme_tables.py --write    bring README.md up to date
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from floorgent_ros.config import NodeSettings, ObservationSettings, PredictorSettings

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- parameters: made by tools/readme_tables.py -->", "<!-- end of parameters -->"
GROUPS = (NodeSettings, PredictorSettings, ObservationSettings)


def parameter_table() -> str:
    """Return the table of all node parameters, Markdown."""
    rows = ["| parameter | default | range | what it does |", "|---|---|---|---|"]
    for group in GROUPS:
        rows += [_row(item) for item in fields(group)]
    return "\n".join(rows)


def updated(readme: str) -> str:
    """Return the README's text with the present table between its marks; ValueError without marks."""
    before, found, rest = readme.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise ValueError(f"README.md needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{parameter_table()}\n{END}{after}"


def main() -> int:
    """Check or write; 1 when the README is out of date."""
    parser = argparse.ArgumentParser(description="The README's table of parameters.")
    parser.add_argument("--write", action="store_true", help="bring README.md up to date")
    options = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    if options.write:
        README.write_text(updated(text), encoding="utf-8")
    elif updated(text) != text:
        print("README.md: the table of parameters is out of date; run tools/readme_tables.py --write")
        return 1
    return 0


def _row(item: Field[Any]) -> str:
    meta = item.metadata
    default = item.default
    if isinstance(default, bool):
        default = str(default).lower()  # as in YAML
    elif isinstance(default, str):
        default = f'"{default}"'
    text = meta["text"] + (" (read-only)" if meta["read_only"] else "")
    return f"| `{item.name}` | `{default}` | {_range(meta)} | {text} |"


def _range(meta: Any) -> str:
    if meta["choices"]:
        return ", ".join(f"`{choice}`" for choice in meta["choices"])
    if meta["low"] is None:
        return ""
    unit = f" {meta['unit']}" if meta["unit"] else ""
    return f"{meta['low']:g} to {_plain(meta['high'])}{unit}"


def _plain(number: float) -> str:
    return "2⁶³ − 1" if number == 2**63 - 1 else f"{number:g}"


if __name__ == "__main__":
    sys.exit(main())
