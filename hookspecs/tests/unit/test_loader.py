from __future__ import annotations

import logging

import pytest

from ett_hookspecs import EttManager, EttPluginError, Span, Stage
from ett_hookspecs.loader import PluginStatus, load_plugins

SPAN = Span(name="work", stage=Stage.TRAINING, start_ns=0, end_ns=1, plugin="test")


def owning(name, contract=None):
    """Source of a plugin that says that it owns every span."""
    return (
        "from ett_hookspecs import hookimpl\n"
        + (f"ETT_CONTRACT = {contract!r}\n" if contract is not None else "")
        + "@hookimpl\n"
        "def ett_choose_stage_owner(span):\n"
        f"    span.details.setdefault('asked', []).append({name!r})\n"
    )


MISSPELT = "from ett_hookspecs import hookimpl\n@hookimpl\ndef ett_choose_stage_ower(span): ...\n"


def loaded(manager=None, **options):
    """What became of the fake plugins, by name."""
    manager = manager or EttManager()
    return {
        plugin.name: plugin for plugin in load_plugins(manager, **options) if plugin.distribution.startswith("fake-")
    }


def asked(manager):
    span = Span(name="work", stage=Stage.TRAINING, start_ns=0, end_ns=1, plugin="test", details={})
    manager.hook.ett_choose_stage_owner(span=span)
    return span.details.get("asked", [])


def test_an_installed_plugin_is_loaded_and_described(install):
    install("fake-one", version="1.4", plugins={"one": "fake_one.plugin"}, modules={"fake_one.plugin": owning("one")})
    manager = EttManager()
    plugin = loaded(manager)["one"]
    assert (plugin.distribution, plugin.version, plugin.value) == ("fake-one", "1.4", "fake_one.plugin")
    assert (plugin.status, plugin.reason) == (PluginStatus.LOADED, None)
    assert plugin.hooks == ("ett_choose_stage_owner",)
    assert plugin.contract == (1, 0)
    assert manager.get_plugin("one").__name__ == "fake_one.plugin"
    assert asked(manager) == ["one"]


@pytest.mark.parametrize("order", [["a", "b", "c"], ["c", "a", "b"]])
def test_plugins_are_asked_in_the_order_of_their_names_however_they_were_installed(install, order):
    for name in order:
        install(f"fake-{name}", folder=name, plugins={name: f"fake_{name}"}, modules={f"fake_{name}": owning(name)})
    manager = EttManager()
    assert list(loaded(manager)) == ["a", "b", "c"]
    assert asked(manager) == ["a", "b", "c"]


def test_one_distribution_seen_twice_through_the_path_is_loaded_once(install):
    for folder in ("site", "copy"):
        install("fake-one", folder=folder, plugins={"one": "fake_one"}, modules={"fake_one": owning("one")})
    manager = EttManager()
    assert loaded(manager)["one"].status is PluginStatus.LOADED
    assert asked(manager) == ["one"]


def test_a_version_that_shadows_another_along_the_path_is_the_one_that_counts(install):
    for folder, version in (("old", "1.0"), ("new", "2.0")):
        install(
            "fake-one",
            version=version,
            folder=folder,
            plugins={"one": "fake_one"},
            modules={"fake_one": owning(version)},
        )
    manager = EttManager()
    assert loaded(manager)["one"].version == "2.0"
    assert asked(manager) == ["2.0"]


def test_a_name_claimed_by_two_distributions_is_refused_naming_both(install):
    for name in ("fake-one", "fake-two"):
        module = name.replace("-", "_")
        install(name, plugins={"same": module}, modules={module: owning(name)})
    with pytest.raises(EttPluginError) as raised:
        loaded()
    text = str(raised.value)
    assert "'same' is claimed by fake-one 1.0" in text
    assert "by fake-two 1.0" in text
    assert "ETT_DISABLE_PLUGINS=same" in text


def test_a_name_claimed_twice_is_no_trouble_once_it_is_disabled(install, disable):
    for name in ("fake-one", "fake-two"):
        install(name, plugins={"same": "fake_module"})
    disable("same")
    assert loaded()["same"].status is PluginStatus.DISABLED


def test_a_broken_import_is_a_warning_that_names_who_and_why_and_the_others_go_on(install, caplog):
    install(
        "fake-broken",
        version="0.9",
        plugins={"broken": "fake_broken"},
        modules={"fake_broken": "raise RuntimeError('libcuda.so is missing\\nand more')\n"},
    )
    install("fake-one", plugins={"one": "fake_one"}, modules={"fake_one": owning("one")})
    manager = EttManager()
    plugins = loaded(manager)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "plugin 'broken' (fake-broken 0.9) is skipped: it cannot be imported" in record.getMessage()
    assert "RuntimeError: libcuda.so is missing" in record.getMessage()
    assert "\n" not in record.getMessage()
    assert plugins["broken"].status is PluginStatus.SKIPPED
    assert asked(manager) == ["one"]


def test_a_module_that_is_not_there_is_a_warning(install, caplog):
    install("fake-gone", plugins={"gone": "fake_gone.plugin"})
    assert loaded()["gone"].status is PluginStatus.SKIPPED
    assert "ModuleNotFoundError: No module named 'fake_gone'" in caplog.text


def test_an_entry_that_is_no_module_is_a_warning(install, caplog):
    install("fake-class", plugins={"class": "fake_class:Plugin"}, modules={"fake_class": "class Plugin: ...\n"})
    assert loaded()["class"].status is PluginStatus.SKIPPED
    assert "'fake_class:Plugin' is no module" in caplog.text


def test_a_module_that_exits_when_imported_is_broken_and_takes_nobody_along(install, caplog):
    install("fake-exit", plugins={"exit": "fake_exit"}, modules={"fake_exit": "raise SystemExit(3)\n"})
    assert loaded()["exit"].status is PluginStatus.SKIPPED
    assert "SystemExit: 3" in caplog.text


def test_ctrl_c_during_an_import_passes(install):
    install("fake-slow", plugins={"slow": "fake_slow"}, modules={"fake_slow": "raise KeyboardInterrupt\n"})
    with pytest.raises(KeyboardInterrupt):
        loaded()


def test_a_misspelt_hook_is_refused(install):
    install("fake-typo", version="3.0", plugins={"typo": "fake_typo"}, modules={"fake_typo": MISSPELT})
    with pytest.raises(
        EttPluginError, match=r"plugin 'typo' \(fake-typo 3.0\).*perhaps 'ett_choose_stage_owner' is meant"
    ):
        loaded()


@pytest.mark.parametrize("names", [["one"], [" one ", "two"], ["*"]])
def test_disabled_plugins_are_not_even_imported(install, disable, names):
    install("fake-one", plugins={"one": "fake_one"}, modules={"fake_one": "raise SystemExit\n"})
    disable(*names)
    plugin = loaded()["one"]
    assert plugin.status is PluginStatus.DISABLED
    assert "ETT_DISABLE_PLUGINS" in plugin.reason


def test_disabling_one_leaves_the_others(install, disable):
    for name in ("one", "two"):
        install(f"fake-{name}", plugins={name: f"fake_{name}"}, modules={f"fake_{name}": owning(name)})
    disable("one")
    manager = EttManager()
    loaded(manager)
    assert asked(manager) == ["two"]


def test_disabling_one_that_is_not_installed_is_a_warning(disable, caplog):
    disable("tiemline")
    loaded()
    assert "ETT_DISABLE_PLUGINS names tiemline, which is not installed" in caplog.text


def test_a_plugin_for_another_major_contract_is_skipped_and_told_so(install, caplog):
    install("fake-future", plugins={"future": "fake_future"}, modules={"fake_future": owning("future", (2, 1))})
    manager = EttManager()
    plugin = loaded(manager)["future"]
    assert plugin.status is PluginStatus.SKIPPED
    assert plugin.contract == (2, 1)
    assert "it was built for contract 2.1 and this is 1.0" in caplog.text
    assert asked(manager) == []


@pytest.mark.parametrize("contract", [(1, 0), (1, 7)])
def test_a_plugin_for_the_same_major_contract_is_loaded(install, contract):
    install("fake-same", plugins={"same": "fake_same"}, modules={"fake_same": owning("same", contract)})
    assert loaded()["same"].contract == contract


def test_a_newer_minor_contract_with_a_hook_we_lack_says_what_to_upgrade(install):
    source = "ETT_CONTRACT = (1, 7)\n" + MISSPELT
    install("fake-newer", plugins={"newer": "fake_newer"}, modules={"fake_newer": source})
    with pytest.raises(EttPluginError, match=r"built for contract 1.7: upgrade ett-hookspecs"):
        loaded()


@pytest.mark.parametrize("contract", ["1.0", 1, (1,), None])
def test_a_contract_that_is_no_pair_of_numbers_is_skipped(install, contract, caplog):
    source = f"ETT_CONTRACT = {contract!r}\n"
    install("fake-odd", plugins={"odd": "fake_odd"}, modules={"fake_odd": source})
    assert loaded()["odd"].status is PluginStatus.SKIPPED
    assert "not (major, minor)" in caplog.text


def test_a_listing_neither_raises_nor_warns_but_tells(install, caplog):
    install("fake-typo", plugins={"typo": "fake_typo"}, modules={"fake_typo": MISSPELT})
    install("fake-broken", plugins={"broken": "fake_broken"}, modules={"fake_broken": "1/0\n"})
    install("fake-a", plugins={"same": "fake_a"})
    install("fake-b", plugins={"same": "fake_a"})
    manager = EttManager()
    plugins = loaded(manager, listing=True)
    assert plugins["typo"].status is PluginStatus.REFUSED
    assert "unknown hook" in plugins["typo"].reason
    assert plugins["same"].status is PluginStatus.REFUSED
    assert plugins["broken"].status is PluginStatus.SKIPPED
    assert not caplog.records


def test_a_distribution_without_metadata_can_still_be_named(install, tmp_path, caplog):
    install("fake-bare", plugins={"bare": "fake_bare"}, modules={"fake_bare": "1/0\n"})
    next((tmp_path / "site").glob("*.dist-info/METADATA")).unlink()
    load_plugins(EttManager())
    assert "plugin 'bare' (unknown distribution unknown version) is skipped" in caplog.text
