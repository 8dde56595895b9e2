"""Which floors a data folder gives: by its index, or all of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from floorgent_ros.errors import PlanError
from floorgent_ros.plans.split import floors, training_floors

PLAN = (
    '<floor BuildingName="{building}"><Scale PixelDistance="1" RealDistance="1"/><space><contour>'
    '<linesegment x1="0" y1="0" x2="3" y2="0" type="Wall"/></contour></space></floor>'
)


def entry(building, floor, split, **more):
    return {"file": f"{building}/{floor}.xml", "building": building, "split": split, **more}


def write(folder, entries=None, plans=("b1/a", "b1/b", "b2/a", "b3/a")):
    for plan in plans:
        path = folder / f"{plan}.xml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(PLAN.format(building=path.parent.name))
    if entries is not None:
        (folder / "index.json").write_text(entries if isinstance(entries, str) else json.dumps(entries))
    return folder


def names(found):
    return [f"{floor.path.parent.name}/{floor.path.stem}" for floor in found]


INDEX = [
    entry("b2", "a", "val"),
    entry("b1", "b", "train"),
    entry("b1", "a", "train", scale_correction=2.0),
    entry("b3", "a", "test"),
]


def test_each_split_has_its_buildings_in_the_order_of_the_index(tmp_path):
    write(tmp_path, INDEX)
    assert names(floors(tmp_path, "train")) == ["b1/b", "b1/a"]
    assert names(floors(tmp_path, "val")) == ["b2/a"]
    assert names(floors(tmp_path, "test")) == ["b3/a"]
    assert names(floors(tmp_path)) == names(floors(str(tmp_path), "all")) == ["b2/a", "b1/b", "b1/a", "b3/a"]


def test_the_splits_share_no_building(tmp_path):
    write(tmp_path, INDEX)
    buildings = [{floor.building for floor in floors(tmp_path, split)} for split in ("train", "val", "test")]
    assert set.union(*buildings) == {"b1", "b2", "b3"}
    assert sum(map(len, buildings)) == 3


def test_reading_a_floor_applies_its_scale_correction(tmp_path):
    write(tmp_path, INDEX)
    plain, corrected = floors(tmp_path, "train")
    assert np.allclose(corrected.read().walls, 2 * plain.read().walls)
    assert np.allclose(plain.read().walls, [[[0, 0], [3, 0]]])


def test_a_folder_without_an_index_is_one_split_of_all_plans(tmp_path):
    write(tmp_path, plans=("b2/a", "b1/b", "b1/a"))
    (tmp_path / "b1" / "notes.txt").write_text("no plan")
    assert names(floors(tmp_path)) == ["b1/a", "b1/b", "b2/a"]
    assert {(floor.split, floor.scale_correction) for floor in floors(tmp_path)} == {("all", 1.0)}
    assert [floor.read().building for floor in floors(tmp_path)] == ["b1", "b1", "b2"]
    assert_refused(tmp_path, "train", "index.json")


def test_a_building_in_two_splits_is_refused(tmp_path):
    write(tmp_path, [*INDEX, entry("b1", "c", "test")])
    assert_refused(tmp_path, "all", "b1")
    assert_refused(tmp_path, "val", "b1")


def test_a_misspelt_split_in_the_index_does_not_lose_floors_quietly(tmp_path):
    write(tmp_path, [*INDEX, entry("b4", "a", "trian")])
    assert_refused(tmp_path, "train", "trian")


@pytest.mark.parametrize("split", ["training", "", "ALL"])
def test_an_unknown_split_is_refused_with_the_known_ones(tmp_path, split):
    write(tmp_path, INDEX)
    with pytest.raises(PlanError, match="train, val, test, all"):
        floors(tmp_path, split)


def test_empty_and_missing_folders_are_refused(tmp_path):
    assert_refused(tmp_path, "all", "no floor plan")
    assert_refused(tmp_path / "nowhere", "all", "no such folder")
    write(tmp_path, plans=("b1/a",))
    assert_refused(tmp_path / "b1" / "a.xml", "all", "no such folder")


def test_a_split_without_floors_is_refused(tmp_path):
    write(tmp_path, INDEX[:3])
    assert_refused(tmp_path, "test", "'test'")
    write(tmp_path, [])
    assert_refused(tmp_path, "all", "no floor plan")


def test_training_floors_are_those_of_the_index_and_none_without(tmp_path):
    write(tmp_path, INDEX)
    assert training_floors(tmp_path) == floors(tmp_path, "train")
    (tmp_path / "index.json").unlink()
    assert training_floors(tmp_path) == []
    write(tmp_path, [entry for entry in INDEX if entry["split"] != "train"])
    assert training_floors(tmp_path) == []


BAD_INDEX = {
    "no JSON": "[{",
    "empty": "",
    "an object": json.dumps({"train": ["b1/a.xml"]}),
    "a number": "7",
    "numbers": "[7]",
    "no building": json.dumps([{"file": "b1/a.xml", "split": "train"}]),
    "file is a number": json.dumps([{"file": 3, "building": "b1", "split": "train"}]),
    "correction is a word": json.dumps([entry("b1", "a", "train", scale_correction="twice")]),
    "correction is null": json.dumps([entry("b1", "a", "train", scale_correction=None)]),
    "split is a list": json.dumps([entry("b1", "a", ["train"])]),
}


@pytest.mark.parametrize("name", BAD_INDEX)
def test_a_bad_index_is_refused(tmp_path, name):
    write(tmp_path, BAD_INDEX[name])
    assert_refused(tmp_path, "all", "index.json")


def test_a_file_that_the_index_only_claims_is_refused_when_it_is_read(tmp_path):
    write(tmp_path, [entry("b9", "a", "train")])
    (floor,) = floors(tmp_path, "train")
    with pytest.raises(PlanError, match=r"a\.xml"):
        floor.read()


def assert_refused(folder, split, said):
    with pytest.raises(PlanError) as refusal:
        floors(folder, split)
    message = str(refusal.value)
    assert said in message
    assert message.startswith(str(folder))
    assert "\n" not in message
