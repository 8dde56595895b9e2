"""map_server's files: the three modes, negate, round trips and every kind of broken file."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import OccupancyMap

KEYS = "image: map.pgm\nresolution: 0.05\norigin: [-1.5, 2.0, 0.5]\n"
THRESHOLDS = "occupied_thresh: 0.65\nfree_thresh: 0.196\n"


def write(folder, pixels, text=KEYS + THRESHOLDS + "negate: 0\n", name="map.pgm"):
    """A YAML file and its image; PGM bytes are written by hand, so that no codec can hide an error."""
    pixels = np.asarray(pixels)
    if name.endswith(".pgm"):
        top = 255 if pixels.dtype != np.uint16 else 65535
        head = f"P5\n{pixels.shape[1]} {pixels.shape[0]}\n{top}\n".encode()
        body = pixels.astype(">u2" if top > 255 else np.uint8).tobytes()
        (folder / name).write_bytes(head + body)
    else:
        (folder / name).write_bytes(cv2.imencode(".png", pixels)[1].tobytes())
    (folder / "map.yaml").write_text(text)
    return folder / "map.yaml"


def test_trinary_reads_grey_values_and_turns_rows_over(tmp_path):
    grid = OccupancyMap.from_file(write(tmp_path, [[0, 254, 205], [254, 254, 0]]))
    assert grid.cells.dtype == np.int8
    assert grid.cells.flags.c_contiguous
    assert grid.cells.tolist() == [[0, 0, 100], [100, 0, -1]]  # the image's last row is the lowest y
    assert (grid.resolution, grid.origin, grid.yaw) == (0.05, (-1.5, 2.0), 0.5)


def test_trinary_thresholds_are_strict(tmp_path):
    # 51 is 0.2 and 153 is 0.6 of 255: cells on a threshold are unknown.
    text = KEYS + "occupied_thresh: 0.6\nfree_thresh: 0.2\nnegate: 1\n"
    grid = OccupancyMap.from_file(write(tmp_path, [[50, 51, 52, 152, 153, 154]], text))
    assert grid.cells.tolist() == [[0, -1, -1, -1, -1, 100]]


@pytest.mark.parametrize("negate", ["1", "true"])
def test_negate_swaps_dark_and_bright(tmp_path, negate):
    grid = OccupancyMap.from_file(write(tmp_path, [[0, 255, 128]], KEYS + THRESHOLDS + f"negate: {negate}\n"))
    assert grid.cells.tolist() == [[0, 100, -1]]


def test_scale_is_linear_between_the_thresholds(tmp_path):
    text = KEYS + "occupied_thresh: 0.8\nfree_thresh: 0.2\nmode: scale\n"
    pixels = [[0, 255, 255 - 128, 255 - 77, 255 - 178]]
    grid = OccupancyMap.from_file(write(tmp_path, pixels, text))
    shades = [(128 / 255 - 0.2) / 0.6, (77 / 255 - 0.2) / 0.6, (178 / 255 - 0.2) / 0.6]
    assert grid.cells.tolist() == [[100, 0, *(round(100 * shade) for shade in shades)]]


def test_scale_makes_translucent_pixels_unknown(tmp_path):
    pixels = np.array([[[0, 0, 0, 255], [0, 0, 0, 0], [255, 255, 255, 255]]], np.uint8)
    text = KEYS.replace(".pgm", ".png") + THRESHOLDS + "mode: scale\n"
    assert OccupancyMap.from_file(write(tmp_path, pixels, text, "map.png")).cells.tolist() == [[100, -1, 0]]


def test_raw_takes_values_as_they_are_and_ignores_negate(tmp_path):
    for negate in (0, 1):
        text = KEYS + THRESHOLDS + f"mode: raw\nnegate: {negate}\n"
        grid = OccupancyMap.from_file(write(tmp_path, [[0, 1, 50, 100, 101, 255]], text))
        assert grid.cells.tolist() == [[0, 1, 50, 100, -1, -1]]


def test_sixteen_bits_and_colour(tmp_path):
    assert OccupancyMap.from_file(write(tmp_path, np.array([[0, 65535]], np.uint16))).cells.tolist() == [
        [100, 0]
    ]
    colours = np.array([[[0, 0, 0], [254, 254, 254], [205, 205, 205]]], np.uint8)
    path = write(tmp_path, colours, KEYS.replace(".pgm", ".png") + THRESHOLDS, "map.png")
    assert OccupancyMap.from_file(path).cells.tolist() == [[100, 0, -1]]


def test_numbers_that_yaml_takes_for_text(tmp_path):
    text = (KEYS + THRESHOLDS).replace("0.05", "5e-2")
    assert OccupancyMap.from_file(write(tmp_path, [[0]], text)).resolution == 0.05


def test_without_thresholds_map_servers_own_apply(tmp_path):
    assert OccupancyMap.from_file(write(tmp_path, [[0, 254, 205]], KEYS)).cells.tolist() == [[100, 0, -1]]


@pytest.mark.parametrize(
    ("values", "mode"), [((-1, 0, 100), "trinary"), ((0, 100), "trinary"), (tuple(range(-1, 101)), "raw")]
)
@pytest.mark.parametrize("suffix", [".yaml", ".yml"])
def test_save_and_read_give_the_same_map(tmp_path, values, mode, suffix):
    cells = np.random.default_rng(0).choice(np.array(values, np.int8), (37, 61))
    grid = OccupancyMap(cells, 0.025, (-3.21, 1e-7), -1.234)
    path = tmp_path / f"my map{suffix}"
    grid.save(path)
    again = OccupancyMap.from_file(str(path))
    assert np.array_equal(again.cells, cells)
    assert (again.resolution, again.origin, again.yaw) == (grid.resolution, grid.origin, grid.yaw)
    assert f"mode: {mode}" in path.read_text()


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("resolution: 0.05\norigin: [0, 0, 0]\n", "image is missing"),
        ("image: map.pgm\norigin: [0, 0, 0]\n", "resolution is missing"),
        ("image: map.pgm\nresolution: 0.05\n", "origin is missing"),
        (KEYS.replace("0.05", "wide"), "resolution is 'wide'"),
        (KEYS.replace("0.05", "0"), "resolution is 0.0"),
        (KEYS.replace("0.05", ".nan"), "resolution is nan"),
        (KEYS.replace("[-1.5, 2.0, 0.5]", "[0, 0]"), "origin"),
        (KEYS.replace("[-1.5, 2.0, 0.5]", "[0, 0, north]"), "origin"),
        (KEYS.replace("[-1.5, 2.0, 0.5]", "[.nan, 0, 0]"), "origin"),
        (KEYS + "mode: binary\n", "mode is 'binary'"),
        (KEYS.replace("map.pgm", "other.png"), "other.png"),
        (KEYS.replace("map.pgm", "map.yaml"), "OpenCV"),
        ("image: [\n", "not YAML"),
        ("just text\n", "not a map"),
        ("", "not a map"),
    ],
)
def test_broken_file_is_named_in_one_line(tmp_path, text, about):
    path = write(tmp_path, [[0, 254]], text)
    with pytest.raises(MapError, match=about) as caught:
        OccupancyMap.from_file(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_empty_and_binary_files(tmp_path):
    with pytest.raises(MapError, match=r"none\.yaml"):
        OccupancyMap.from_file(tmp_path / "none.yaml")
    path = write(tmp_path, [[0, 254]])
    (tmp_path / "map.pgm").write_bytes(b"")
    with pytest.raises(MapError, match=r"map\.pgm"):
        OccupancyMap.from_file(path)
    path.write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(MapError, match="YAML"):
        OccupancyMap.from_file(path)


def test_save_refuses_a_place_it_cannot_write(tmp_path):
    grid = OccupancyMap(np.zeros((2, 2), np.int8), 0.05)
    with pytest.raises(MapError, match="cannot write"):
        grid.save(tmp_path / "missing" / "map.yaml")
    with pytest.raises(MapError, match=r"ends in \.yaml"):  # the image would overwrite it
        grid.save(tmp_path / "map.png")
