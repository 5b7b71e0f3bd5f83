"""Flags, help and exit codes."""

import re

import pytest

COMMANDS = ["inspect", "plan", "predict", "diff", "replay", "verify", "bench", "devices", "keygen", "sign", "repack", "store"]


def test_help_has_examples_and_exit_codes(dpi):
    text = dpi("--help").ok().out
    for name in COMMANDS:
        assert name in text
    assert "Exit status" in text and "Examples" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_commands(dpi, command):
    assert "dpi " + command in dpi(command, "--help").ok().out


@pytest.mark.parametrize("flags", [["--version"], ["--version", "--json"]])
def test_version(dpi, flags):
    from conftest import ROOT
    header = (ROOT / "capi" / "include" / "dpi" / "dpi.h").read_text()
    want = ".".join(re.search(rf"define DPI_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))
    ran = dpi(*flags).ok()
    assert ran.err == ""
    if "--json" in flags:
        j = ran.json()
        assert j["version"] == want and j["compiler"] and j["bundle_format"] and j["license"] == "Apache-2.0"
    else:
        assert ran.out.splitlines()[0] == "dpi " + want
        assert "compiler" in ran.out and "bundle_format" in ran.out


def test_options_are_listed_as_in_the_header(dpi):
    from conftest import ROOT
    header = (ROOT / "capi" / "include" / "dpi" / "dpi.h").read_text()
    block = header[header.index("/* ---- options "):header.index("typedef struct dpi_options")]
    listed = re.findall(r"(?m)^ \*   ([a-z].*)$", block)
    assert len(listed) > 40 and dpi("--options").ok().out.splitlines() == listed
    fields = {line.split()[0]: re.split(r" {2,}", line) for line in listed}
    text = " ".join(dpi("verify", "--help").ok().out.split())
    for key in ("device", "precision", "threads"):
        _, values, default, clause = fields[key]
        assert f"{values} (default {default}): {clause}" in text


@pytest.mark.parametrize("args", [["--json"], ["--json", "inspect"], [], ["fly"], ["predict"], ["inspect"], ["plan", "x.h5", "--fold", "maybe"],
                                  ["plan", "x.h5", "--dot", "--json"], ["predict", "x.h5", "y.csv", "--batch", "0"],
                                  ["bench", "x.h5", "--batch", "a"], ["verify", "x.h5", "--unknown"]])
def test_wrong_usage(dpi, args):
    assert dpi(*args).code == 1


@pytest.mark.parametrize("args, says", [
    ([], "a command is required: inspect, plan, predict"), (["inspekt", "x.h5"], "no command 'inspekt' (did you mean 'inspect'?); known: inspect"),
    (["verfiy"], "did you mean 'verify'?"), (["fly"], "no command 'fly'; known: inspect"),
    (["delta"], "a command is required: make, show, apply; dpi delta --help"), (["delta", "mak"], "no command 'delta mak' (did you mean 'make'?)"),
    (["store"], "a command is required: load, stat"), (["store", "hotkeys", "x.h5"], "no command 'store hotkeys' (did you mean 'hot-keys'?)"),
    (["bench", "x.h5", "--threads", "0"], "--threads: expected a number above 0, got '0'"),
    (["bench", "x.h5", "--seconds", "nan"], "--seconds: expected a number above 0, got 'nan'"),
    (["bench", "x.h5", "--seconds", "inf"], "--seconds"), (["bench", "x.h5", "--batch", "1,,2"], "--batch: an element of the list '1,,2' is empty"),
    (["bench", "x.h5", "--callers=1,"], "--callers: an element of the list '1,' is empty"), (["bench", "x.h5", "--users", ",1"], "--users: an element"),
    (["verify", "x.h5", "--device", ""], "--device is empty"), (["verify", "x.h5", "--device="], "--device is empty"),
    (["predict", "x.h5", "r.csv", "--label", ""], "--label is empty"), (["predict", "", "r.csv"], "argument 2 is empty"), (["predict", "x.h5", "r.csv", "-o", ""], "-o is empty"),
    (["predict", "x.h5", "r.csv", "--json"], "--json: is the form of a summary: give --summary or --label too")])
def test_what_is_wrong_is_named(dpi, args, says):
    err = dpi(*args).fails(1, says).err
    assert len(err) < 250


@pytest.mark.parametrize("asked, meant", [("store.hostbytes", "store.host_bytes"), ("devcie", "device"), ("max_row", "max_rows"), ("colour", None)])
def test_the_nearest_option_is_named(dpi, bundle, asked, meant):
    err = dpi("inspect", bundle, "--option", asked + "=1").fails(1, f"unknown option '{asked}'").err
    assert (f" (did you mean '{meant}'?)" in err) if meant else "did you mean" not in err


@pytest.mark.parametrize("asked, says", [("gpu", " (a GPU of NVIDIA is device 'cuda', package libdpi1-cuda13 has it): "), ("cpuu", " (did you mean 'cpu'?): "),
                                         ("tpu", " (did you mean 'cpu'?): "), ("accelerator", ": ")])
def test_a_device_that_does_not_exist(dpi, bundle, asked, says):
    """What to write comes before the files that were looked for."""
    expected = f"backend '{asked}' cannot be used: unknown device, expected auto, cpu, cuda or ref{says}"
    err = dpi("verify", bundle, "--device", asked).fails(5, expected).err
    assert err.index(expected) + len(expected) == err.index("/", err.index(expected))  # a path follows


@pytest.mark.parametrize("command", ["inspect", "plan", "verify", "bench"])
def test_options(dpi, bundle, command):
    dpi(command, bundle, "--option", "colour=red").fails(1, "colour")
    dpi(command, bundle, "--option", "max_rows").fails(1, "key=value")
    dpi(command, bundle, "--option", "max_rows=0").fails(1, "max_rows")
    dpi(command, bundle, "--precision", "fp99").fails(1, "fp99")


@pytest.mark.parametrize("device, precision", [("ref", "tf32"), ("ref", "fp16"), ("ref", "bf16"), ("ref", "int8"), ("cpu", "tf32"), ("cpu", "fp16")])
def test_a_precision_that_a_device_has_not_is_named(dpi, bundle, device, precision):
    dpi("verify", bundle, "--device", device, "--precision", precision).fails(3, device, f"precision {precision} was asked", "use fp32")


def test_device_that_is_not_there(dpi, bundle):
    if any(d["backend"] == "cuda" and d["usable"] for d in dpi("devices", "--json").json()):
        pytest.skip("this machine has a GPU")
    dpi("verify", bundle, "--device", "cuda").fails(5, "cuda")
    reason = next(d["reason"] for d in dpi("devices", "--json").json() if d["backend"] == "cuda")
    missing = reason.startswith("its plugin is not installed, package libdpi1-cuda13 has it: /")
    assert missing == ("No such file" in reason) == ("libdpi1-cuda13" in reason), reason
    dpi("bench", bundle, "--device", "cuda", "--seconds", "0.01").fails(5, "cuda")
