"""Seal keys from files and from the state folder; tenants."""

import base64
import os
import stat

import pytest

from antiphon.seal_keys import KEY_FILE, own_keys, read_keys
from antiphon.state import default_state_dir
from antiphon.tenant import ANYONE, tenant_of
from antiphon_turns.errors import ConfigError

SECRET = bytes(range(32))


@pytest.mark.parametrize(
    "line",
    [
        SECRET.hex(),
        base64.b64encode(SECRET).decode(),
        base64.urlsafe_b64encode(b"\xfb" * 32).decode(),
        base64.b64encode(SECRET).decode().rstrip("=") + "  # old",
    ],
)
def test_a_key_in_every_spelling(tmp_path, line):
    path = tmp_path / "keys"
    path.write_text(f"# keys\n\n{line}\n{'00' * 32}\n")
    first, second = read_keys(path)
    assert first.secret in (SECRET, b"\xfb" * 32)
    assert second.secret == bytes(32)


@pytest.mark.parametrize("text", ["", "# nothing\n", "abc\n", "zz" * 32, base64.b64encode(bytes(31)).decode()])
def test_what_is_no_key_file_is_told_without_its_content(tmp_path, text):
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_keys(path)
    assert text.strip() == "" or text.strip() not in raised.value.message


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot read the seal keys"):
        read_keys(tmp_path / "none")


def test_own_keys_are_made_once_and_for_the_owner_alone(tmp_path):
    folder = tmp_path / "state" / "antiphon"
    keys, fresh = own_keys(folder, random_bytes=os.urandom)
    assert fresh == folder / KEY_FILE
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o600
    assert own_keys(folder, random_bytes=os.urandom) == (keys, None)
    assert [file.name for file in folder.iterdir()] == [KEY_FILE]


def test_a_state_folder_that_cannot_be_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--state-dir"):
        own_keys(tmp_path / "file" / "antiphon", random_bytes=os.urandom)


def test_the_state_folder_follows_xdg(tmp_path):
    assert default_state_dir({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "antiphon"
    assert default_state_dir({"XDG_STATE_HOME": "relative"}) == default_state_dir({})
    assert default_state_dir({}).parts[-3:] == (".local", "state", "antiphon")


def test_a_tenant_is_its_key_in_either_header():
    named = tenant_of({"authorization": "Bearer sk-1"})
    assert named == tenant_of({"x-api-key": "sk-1"}) == tenant_of({"authorization": "bearer  sk-1 ", "x-api-key": "other"})
    assert named != tenant_of({"authorization": "Bearer sk-2"})
    assert "sk-1" not in named
    for nobody in ({}, {"authorization": "Basic abc"}, {"authorization": "Bearer "}, {"x-api-key": " "}):
        assert tenant_of(nobody) == ANYONE
