"""Settings out of the options of a command."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from floorgent_ros.config import PredictorSettings
from floorgent_ros.errors import ConfigError


def test_options_of_a_fields_name_are_taken_and_the_rest_is_the_default():
    options = Namespace(completions=3, candidates=0, top_p=None, critic=Path("a.safetensors"), floors=7)
    assert PredictorSettings.of(options) == PredictorSettings(
        completions=3, candidates=0, critic="a.safetensors"
    )
    assert PredictorSettings.of(Namespace()) == PredictorSettings()


def test_an_option_out_of_range_is_one_line():
    with pytest.raises(ConfigError, match=r"^candidates = 257: use a value from 0 to 256$"):
        PredictorSettings.of(Namespace(candidates=257))
