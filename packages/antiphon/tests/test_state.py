"""What outlives a run, from the settings: keys, the store, and a home that cannot be written."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from antiphon.config import Settings
from antiphon.seals import Binding
from antiphon.state import STORE_FILE, default_state_dir, open_seals, open_store
from antiphon.store import StoredResponse
from antiphon_turns.errors import ConfigError

BINDING = Binding(family="f", fingerprint="p", vocab_size=10)
RESPONSE = StoredResponse(response_id="resp_1", tenant="t", status="completed", created=1, body=b"{}")


def seals_of(**settings):
    return open_seals(Settings(**settings), random_bytes=os.urandom)


def seal(seals):
    return seals.seal_ids([1], tag="a" * 16, index=0, tenant="t", binding=BINDING)


def opens(seals, value):
    return seals.open_ids(value, tenant="t", binding=BINDING).ids is not None


def keeps(store):
    async def main():
        store.put(RESPONSE)
        found = await store.get("t", "resp_1")
        await store.close()
        return found == RESPONSE

    return asyncio.run(main())


def test_a_restart_opens_the_seals_of_the_run_before(tmp_path, caplog):
    caplog.set_level("INFO", "antiphon")
    value = seal(seals_of(state_dir=tmp_path))
    assert str(tmp_path) in caplog.text
    caplog.clear()
    assert opens(seals_of(state_dir=tmp_path), value)
    assert caplog.text == ""
    assert not opens(seals_of(state_dir=tmp_path / "other"), value)


def test_keys_can_be_given(tmp_path):
    (tmp_path / "keys").write_text("11" * 32)
    value = seal(seals_of(seal_keys=tmp_path / "keys", state_dir=tmp_path / "one"))
    assert opens(seals_of(seal_keys=tmp_path / "keys", state_dir=tmp_path / "two"), value)
    assert not (tmp_path / "one").exists()


def test_the_store_is_in_the_state_folder_in_a_file_in_memory_or_nowhere(tmp_path):
    assert keeps(open_store(Settings(state_dir=tmp_path)))
    assert stat.S_IMODE((tmp_path / STORE_FILE).stat().st_mode) == 0o600
    assert keeps(open_store(Settings(store=tmp_path / "named", state_dir=tmp_path / "none")))
    assert keeps(open_store(Settings(store=Path(":memory:"), state_dir=tmp_path / "none")))
    assert not (tmp_path / "none").exists()
    assert open_store(Settings(enable_store=False)) is None


def test_a_home_that_cannot_be_written_is_no_reason_not_to_serve(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    seals = seals_of()
    assert opens(seals, seal(seals))
    assert keeps(open_store(Settings()))
    assert str(default_state_dir()) in caplog.text
    assert "ends with this process" in caplog.text
    assert "kept in memory" in caplog.text


def test_a_folder_that_was_chosen_must_work(tmp_path):
    (tmp_path / "file").write_text("")
    chosen = tmp_path / "file" / "state"
    with pytest.raises(ConfigError, match="--state-dir"):
        seals_of(state_dir=chosen)
    with pytest.raises(ConfigError, match="--store"):
        open_store(Settings(state_dir=chosen))
    with pytest.raises(ConfigError, match="--store"):
        open_store(Settings(store=chosen))
