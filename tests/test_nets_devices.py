"""The words of --device, and the nets of a store opened as their values were computed."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from valuerepair.cli import cli
from valuerepair.mining.judges import open_net_again
from valuerepair.nets.devices import BY_WORD, DEVICES, REFERENCE_DEVICES, device_of, split_key
from valuerepair.nets.net import NetIdentity
from valuerepair.nets.weights import read_net_file
from valuerepair.store.store import Store


def test_words_mean_devices_and_back() -> None:
    assert [device.word for device in BY_WORD.values()] == list(BY_WORD)
    assert set(REFERENCE_DEVICES) == {"auto", "cpu", "cuda"}
    for word in DEVICES[1:]:
        device = BY_WORD[word]
        assert (device.variant == "") == (word in REFERENCE_DEVICES)
        again = device_of(device.variant)
        assert again is None if word in REFERENCE_DEVICES else BY_WORD[str(again)].precision == device.precision
        assert split_key("ab" * 32 + device.variant) == ("ab" * 32, device.variant)


def test_values_of_another_precision_are_another_nets() -> None:
    names = [NetIdentity("n", "ab" * 32, "wdl", 1, 9, device.variant).key for device in BY_WORD.values()]
    assert len(set(names)) == 2
    assert {device.variant for device in BY_WORD.values()} == {"", "-f16"}


def test_nets_are_compared_at_full_precision_alone() -> None:
    done = CliRunner().invoke(cli, ["compare", "--device", "cuda:f16"])
    assert done.exit_code == 2
    assert "'cuda:f16' is not one of" in done.stderr


def test_a_stores_net_is_opened_as_its_values_were_computed(maia_file: str, tmp_path: Path) -> None:
    key = read_net_file(maia_file).sha256
    with Store.open(tmp_path / "a.db", create=True) as store:
        which = {"name": "maia-1900", "sha256": key}
        with open_net_again(store, which, maia_file, device="auto", threads=1) as net:
            assert net.identity.key == key
