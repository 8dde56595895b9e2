"""Bags of both kinds are read whole and in order; what is no bag is refused in one line."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from small_bag import START_NS, STORAGES, walk, write_bag

from floorgent_ros.bags.recording import MAP_TYPE, POSE_TYPES, Recording
from floorgent_ros.errors import BagError


@pytest.mark.parametrize("storage", STORAGES)
def test_messages_come_back_as_they_were_written_in_the_order_of_their_times(tmp_path, storage):
    entries = walk(seconds=4.0)
    path = write_bag(tmp_path / "bag", reversed(entries), storage)
    with Recording.open(path) as recording:
        assert recording.storage == STORAGES[storage]
        assert (recording.topics_of(MAP_TYPE), recording.topics_of(*POSE_TYPES)) == (["/map"], ["/pose"])
        assert recording.start_ns == START_NS
        found = list(recording.messages(("/map", "/pose")))
        assert [item.time_ns for item in found] == sorted(time_ns for _, time_ns, _ in entries)
        maps = [item.message for item in found if item.topic == "/map"]
        for read, (_, _, written) in zip(maps, [e for e in entries if e[0] == "/map"], strict=True):
            assert np.array_equal(read.data, written.data)
            assert (read.header, read.info.width) == (written.header, written.info.width)
        assert len(list(recording.messages(("/map",)))) == len(maps)
        assert list(recording.messages(("/nothing",))) == []


@pytest.mark.parametrize("storage", STORAGES)
def test_a_single_file_is_a_bag_too(tmp_path, storage):
    folder = write_bag(tmp_path / "bag", walk(seconds=1.0), storage)
    file = next(path for path in folder.iterdir() if path.suffix in {".mcap", ".db3"})
    with Recording.open(file) as recording:
        assert recording.storage == STORAGES[storage]
        assert len(list(recording.messages(("/map", "/pose")))) == 11


def test_an_empty_bag_is_a_bag(tmp_path):
    with Recording.open(write_bag(tmp_path / "bag", [])) as recording:
        assert (recording.start_ns, recording.end_ns, recording.types) == (0, 0, {})


def refusal(path):
    with pytest.raises(BagError) as error, Recording.open(path) as recording:
        list(recording.messages(("/map", "/pose")))
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    return str(error.value)


def test_what_is_no_bag_is_refused_in_one_line(tmp_path):
    assert "no such bag" in refusal(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    assert "cannot be read" in refusal(tmp_path / "folder")
    (tmp_path / "text.mcap").write_text("no bag at all")
    assert "cannot be read" in refusal(tmp_path / "text.mcap")
    (tmp_path / "text.txt").write_text("no bag at all")
    assert "cannot be read" in refusal(tmp_path / "text.txt")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "metadata.yaml").write_text("[1, 2")
    assert "cannot be read" in refusal(broken)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_bag_that_was_cut_off_is_refused_in_one_line(tmp_path, storage):
    whole = write_bag(tmp_path / "whole", walk(seconds=2.0), storage)
    cut = tmp_path / "cut"
    shutil.copytree(whole, cut)
    file = next(path for path in cut.iterdir() if path.suffix in {".mcap", ".db3"})
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    refusal(cut)


def test_a_message_that_was_garbled_is_refused_in_one_line(tmp_path):
    from rosbags.rosbag2 import Writer
    from small_bag import STORE

    path = tmp_path / "bag"
    with Writer(path, version=9) as writer:
        connection = writer.add_connection("/map", MAP_TYPE, typestore=STORE)
        writer.write(connection, START_NS, b"\x00\x01\x00\x00garbled")
    refusal(path)
